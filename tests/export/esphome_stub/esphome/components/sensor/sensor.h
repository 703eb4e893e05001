/* As much of ESPHome's sensor.h as an exported component uses. */
#pragma once

#include <functional>
#include <utility>
#include <vector>

#define LOG_SENSOR(prefix, type, obj) ((void) TAG, (void) (obj))
#define SUB_SENSOR(name) \
 protected: \
  sensor::Sensor *name##_sensor_{nullptr}; \
\
 public: \
  void set_##name##_sensor(sensor::Sensor *sensor) { this->name##_sensor_ = sensor; }

namespace esphome::sensor {

class Sensor {
 public:
  void add_on_state_callback(std::function<void(float)> callback) { this->callbacks_.push_back(std::move(callback)); }
  void publish_state(float value) {
    this->state = value;
    for (auto &callback : this->callbacks_) callback(value);
  }
  float state{0};

 protected:
  std::vector<std::function<void(float)>> callbacks_;
};

}  // namespace esphome::sensor
