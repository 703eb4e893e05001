/* Prints a simulated reading and its calibrated value, interval and flags as CSV, once every step. A reading without a
 * calibrated value gets nan; the last column says why. Read your own sensor instead of calling ${name}_simulate. */
#include <stdio.h>

#include <zephyr/kernel.h>

#include "$name.h"
#include "${name}_simulated.h"

int main(void) {
    static uint32_t memory[SCARE_WORDS(${upper}_BYTES)];
    static scare calibration;
    scare_status status = scare_init(&calibration, &$name, memory, sizeof memory);
    if (status == SCARE_OK) status = scare_self_test(&calibration, &${name}_golden);
    if (status != SCARE_OK) {
        puts(scare_explain(status));
        return 1;
    }
    puts("$heading");
    for (uint32_t number = 0;; number++) {
        float row[${upper}_CHANNELS];
        scare_answer answer;
        ${name}_simulate(number, row);
        status = scare_calibrate(&calibration, k_uptime_get_32(), row, &answer);
        for (uint32_t i = 0; i < ${upper}_CHANNELS; i++) printf("%.6f,", (double)row[i]);
        printf("%.6f,%.6f,%.6f,", (double)answer.value, (double)answer.low, (double)answer.high);
        printf("%lu,%s\n", (unsigned long)answer.flags, scare_explain(status));
        k_msleep((int32_t)$name.step_ms);
    }
    return 0;
}
