/* As much of ESPHome's hal.h as an exported component uses. */
#pragma once

#include <cstdint>

namespace esphome {
uint32_t millis();
}
