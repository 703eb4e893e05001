/* Prints a simulated reading and its calibrated value, interval and flags as CSV, once every step. A reading without a
 * calibrated value gets nan; the last column says why. Read your own sensor instead of calling ${name}_simulate. */
#include <stdio.h>

#include "esp_timer.h"
#include "freertos/FreeRTOS.h"
#include "freertos/task.h"

#include "$name.h"
#include "${name}_simulated.h"

void app_main(void) {
    static uint32_t memory[SCARE_WORDS(${upper}_BYTES)];
    static scare calibration;
    scare_status status = scare_init(&calibration, &$name, memory, sizeof memory);
    if (status == SCARE_OK) status = scare_self_test(&calibration, &${name}_golden);
    if (status != SCARE_OK) {
        puts(scare_explain(status));
        return;
    }
    const TickType_t step = (TickType_t)((uint64_t)$name.step_ms * configTICK_RATE_HZ / 1000);
    TickType_t woken = xTaskGetTickCount();
    puts("$heading");
    for (uint32_t number = 0;; number++) {
        float row[${upper}_CHANNELS];
        scare_answer answer;
        ${name}_simulate(number, row);
        status = scare_calibrate(&calibration, (uint32_t)(esp_timer_get_time() / 1000), row, &answer);
        for (uint32_t i = 0; i < ${upper}_CHANNELS; i++) printf("%.6f,", (double)row[i]);
        printf("%.6f,%.6f,%.6f,", (double)answer.value, (double)answer.low, (double)answer.high);
        printf("%lu,%s\n", (unsigned long)answer.flags, scare_explain(status));
        vTaskDelayUntil(&woken, step);
    }
}
