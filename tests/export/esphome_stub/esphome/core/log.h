/* As much of ESPHome's log.h as an exported component uses; what is logged is checked, not shown. */
#pragma once

#include <cstdio>

#define ESP_LOGE(tag, ...) ((void) (tag), (void) snprintf(nullptr, 0, __VA_ARGS__))
#define ESP_LOGI(tag, ...) ((void) (tag), (void) snprintf(nullptr, 0, __VA_ARGS__))
#define ESP_LOGCONFIG(tag, ...) ESP_LOGI(tag, __VA_ARGS__)
