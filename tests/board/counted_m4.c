/* What only a Cortex-M4 has. */
__attribute__((naked, used)) int add_if_one(int number);
__attribute__((naked, used)) int add_if_one(int number) {
    __asm volatile("cmp r0, #1\n ite eq\n addeq r0, #5\n movne r0, #7\n bx lr");
}

__attribute__((naked, used)) float divide(float a, float b);
__attribute__((naked, used)) float divide(float a, float b) {
    __asm volatile("vdiv.f32 s0, s0, s1\n vadd.f32 s0, s0, s0\n bx lr");
}

__attribute__((naked, used)) int load_three(const int *numbers);
__attribute__((naked, used)) int load_three(const int *numbers) {
    __asm volatile("ldr r1, [r0]\n ldr r2, [r0, #4]\n ldr r3, [r0, #8]\n sdiv r0, r1, r2\n bx lr");
}
