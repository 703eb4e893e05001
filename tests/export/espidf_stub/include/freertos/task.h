#ifndef TASK_H
#define TASK_H

#include <stdlib.h>

#include "esp_timer.h"
#include "freertos/FreeRTOS.h"

static inline TickType_t xTaskGetTickCount(void) { return (TickType_t)(stub_us / 1000000 * configTICK_RATE_HZ); }

static inline void vTaskDelayUntil(TickType_t *woken, TickType_t ticks) {
    static uint32_t steps;
    *woken += ticks;
    stub_us += (int64_t)ticks * 1000000 / configTICK_RATE_HZ;
    if (++steps == 100) exit(0);
}

#endif
