/* Functions whose instructions are known by counting lines. */
#include <stdint.h>

__attribute__((naked, used)) void count_down(int times);
__attribute__((naked, used)) void count_down(int times) {
#ifdef __riscv
    __asm volatile("1: addi a0, a0, -1\n bnez a0, 1b\n ret");
#else
    __asm volatile("1: subs r0, #1\n bne 1b\n bx lr");
#endif
}

__attribute__((naked, used)) void spell(void);
__attribute__((naked, used)) void spell(void) {
#ifdef __riscv
    __asm volatile("addi sp, sp, -32\n nop\n nop\n addi sp, sp, 32\n ret");
#else
    __asm volatile("push {r4, r5, lr}\n sub sp, #20\n nop\n add sp, #20\n pop {r4, r5, pc}");
#endif
}

volatile uint8_t *touch(uint32_t address);
volatile uint8_t *touch(uint32_t address) {
    volatile uint8_t *place = (volatile uint8_t *)address;
    *place = 1;
    return place;
}

uint32_t look(const uint32_t *place);
uint32_t look(const uint32_t *place) {
    return *place;
}

int sum_array(int count);
int sum_array(int count) {
    volatile int numbers[300];
    int sum = 0;
    for (int i = 0; i < 300; i++) numbers[i] = i;
    for (int i = 0; i < count; i++) sum += numbers[i];
    return sum;
}

int overflow(int depth);
int overflow(int depth) {
    volatile char block[20000];
    for (int i = 0; i < 20000; i++) block[i] = (char)depth;
    return depth == 0 ? block[5] : overflow(depth - 1) + block[7];
}

float mixed(int a, float b, int c, int d, int e, float f, int g);
float mixed(int a, float b, int c, int d, int e, float f, int g) {
    return b * (float)(a + 2 * c + 3 * d + 4 * e + 5 * g) + f;
}

float dot(const float *a, const float *b, int count);
float dot(const float *a, const float *b, int count) {
    float sum = 0.0f;
    for (int i = 0; i < count; i++) sum += a[i] * b[i];
    return sum;
}

void forever(void);
void forever(void) {
    for (;;) __asm volatile("");
}
