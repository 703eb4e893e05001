/* Runs the model on WINDOWS windows and prints each scaled output in bits; for QEMU with semihosting.
 * windows.h holds them as words. */
#include MODEL_HEADER
#include "windows.h"

static uint32_t scratch[SCARE_WORDS(MODEL_MEMORY)];

static void ask(uint32_t operation, const void *argument) {
    register uint32_t r0 __asm("r0") = operation;
    register const void *r1 __asm("r1") = argument;
    __asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

int main(void) {
    for (int i = 0; i < WINDOWS; i++) {
        scare_choice choice = {0, 0};
        union {
            float number;
            uint32_t bits;
        } scaled;
        char text[10];
        MODEL.run(windows[i], scratch, &choice, &scaled.number, &MODEL);
        for (int digit = 0; digit < 8; digit++)
            text[digit] = "0123456789abcdef"[(scaled.bits >> (28 - 4 * digit)) & 15u];
        text[8] = '\n';
        text[9] = 0;
        ask(0x04, text);
    }
    ask(0x18, (const void *)0x20026);
    return 0;
}
