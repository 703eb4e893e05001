/* Startup code of a program: from reset to main. */
#include <stdint.h>

#if (defined(__ARM_ARCH_7EM__) || defined(__ARM_ARCH_8M_MAIN__)) && !(defined(__ARM_FEATURE_DSP) && (__ARM_FP & 4))
#error "built without the DSP instructions or the floating point unit"
#endif

extern uint32_t stack_top[], data_start[], data_end[], data_load[], bss_start[], bss_end[];

__attribute__((weak)) int main(void) {
    return 0;
}
void Reset_Handler(void);

void Reset_Handler(void) {
#if defined(__ARM_FP)
    *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20; /* switch the floating point unit on */
#endif
    const uint32_t *from = data_load;
    for (volatile uint32_t *to = data_start; to < data_end; to++) *to = *from++;
    for (volatile uint32_t *to = bss_start; to < bss_end; to++) *to = 0;
    (void)main();
    for (;;) {
    }
}

#if defined(__riscv)
__asm__(".section .vectors, \"ax\"\n la sp, stack_top\n j Reset_Handler\n .previous");
#else
typedef struct {
    uint32_t *stack;
    void (*reset)(void);
} vectors;

__attribute__((used, section(".vectors"))) static const vectors table = {stack_top, Reset_Handler};
#endif
