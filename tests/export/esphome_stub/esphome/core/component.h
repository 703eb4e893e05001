/* As much of ESPHome's component.h as an exported component uses. */
#pragma once

#include <cstdint>

namespace esphome {

namespace setup_priority {
inline constexpr float DATA = 600.0f;
}

class Component {
 public:
  virtual ~Component() = default;
  virtual void setup() {}
  virtual void dump_config() {}
  virtual float get_setup_priority() const { return setup_priority::DATA; }
  void mark_failed() { this->failed = true; }
  bool failed{false};
};

class PollingComponent : public Component {
 public:
  virtual void update() = 0;
};

}  // namespace esphome
