/* Prints simulated readings with their calibrated values, intervals and flags as CSV. A reading without a calibrated
 * value gets nan; the last column says why. */
#include <stdio.h>

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
    for (uint32_t number = 0; number < ${upper}_WINDOW + 60u; number++) {
        float row[${upper}_CHANNELS];
        scare_answer answer;
        ${name}_simulate(number, row);
        status = scare_calibrate(&calibration, number * $name.step_ms, row, &answer);
        for (uint32_t i = 0; i < ${upper}_CHANNELS; i++) printf("%.6f,", (double)row[i]);
        printf("%.6f,%.6f,%.6f,", (double)answer.value, (double)answer.low, (double)answer.high);
        printf("%lu,%s\n", (unsigned long)answer.flags, scare_explain(status));
    }
    return 0;
}
