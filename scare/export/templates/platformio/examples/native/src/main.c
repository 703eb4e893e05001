/* Prints, for readings that are made up, what was read and what it is calibrated to, as CSV: value, interval, flags
 *. Where there is no calibrated value it is nan, and the last column says why. */
#include <stdio.h>

#include "$name.h"
#include "${name}_simulated.h"

int main(void) {
    static uint32_t memory[SCARE_WORDS(${upper}_BYTES)];
    static scare calibration;
    scare_init(&calibration, &$name, memory, sizeof memory);
    puts("$heading");
    for (uint32_t number = 0; number < ${upper}_WINDOW + 60u; number++) {
        float row[${upper}_CHANNELS];
        scare_answer answer;
        ${name}_simulate(number, row);
        scare_status status = scare_calibrate(&calibration, number * $name.step_ms, row, &answer);
        for (uint32_t i = 0; i < ${upper}_CHANNELS; i++) printf("%.6f,", (double)row[i]);
        printf("%.6f,%.6f,%.6f,", (double)answer.value, (double)answer.low, (double)answer.high);
        printf("%lu,%s\n", (unsigned long)answer.flags, scare_explain(status));
    }
    return 0;
}
