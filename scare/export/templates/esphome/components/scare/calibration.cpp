#include "calibration.h"

#include "esphome/core/hal.h"
#include "esphome/core/log.h"

namespace esphome::scare_esphome {

static const char *const TAG = "scare";

void Input::listen(sensor::Sensor *source, bool skip_nan) {
  this->skip_nan_ = skip_nan;
  source->add_on_state_callback([this](float state) { this->take_(state); });
}

void Input::take_(float state) {
  if (this->skip_nan_ && std::isnan(state)) return;
  this->sum_ += state;
  this->count_++;
  this->last_ms_ = millis();
}

float Input::read(uint32_t now_ms, uint32_t stale_ms) {
  if (this->count_ != 0) {
    this->last_ = this->sum_ / (float) this->count_;
  } else if (now_ms - this->last_ms_ > stale_ms) {
    this->last_ = NAN;
  }
  this->sum_ = 0;
  this->count_ = 0;
  return this->last_;
}

void CalibrationBase::setup() {
  scare_status status = scare_init(&this->calibration_, this->model_, this->memory_, this->bytes_);
  if (status == SCARE_OK) status = scare_self_test(&this->calibration_, this->golden_);
  if (status == SCARE_OK) return;
  ESP_LOGE(TAG, "Not calibrating: %s", scare_explain(status));
  this->mark_failed();
}

void CalibrationBase::update() {
  const uint32_t now_ms = millis();
  for (uint32_t i = 0; i < this->model_->channels; i++) this->row_[i] = this->inputs_[i].read(now_ms, this->stale_ms_);
  scare_answer answer;
  const scare_status status = scare_calibrate(&this->calibration_, now_ms, this->row_, &answer);
  this->explain_(status);
  if (this->raw_sensor_ != nullptr) this->raw_sensor_->publish_state(this->row_[0]);
  if (this->calibrated_sensor_ != nullptr) this->calibrated_sensor_->publish_state(answer.value);
  if (this->low_sensor_ != nullptr) this->low_sensor_->publish_state(answer.low);
  if (this->high_sensor_ != nullptr) this->high_sensor_->publish_state(answer.high);
  if (this->flags_sensor_ != nullptr) this->flags_sensor_->publish_state((float) answer.flags);
}

/* Logs the status whenever it changes. */
void CalibrationBase::explain_(scare_status status) {
  if (status == this->last_status_) return;
  this->last_status_ = status;
  ESP_LOGI(TAG, "Now: %s", scare_explain(status));
}

void CalibrationBase::dump_config() {
  ESP_LOGCONFIG(TAG, "scare: window of %u readings, one every %u ms, stale after %u ms, %u bytes",
                (unsigned) this->model_->window, (unsigned) this->model_->step_ms, (unsigned) this->stale_ms_,
                (unsigned) this->bytes_);
  LOG_SENSOR("  ", "Calibrated", this->calibrated_sensor_);
  LOG_SENSOR("  ", "Low", this->low_sensor_);
  LOG_SENSOR("  ", "High", this->high_sensor_);
  LOG_SENSOR("  ", "Raw", this->raw_sensor_);
  LOG_SENSOR("  ", "Flags", this->flags_sensor_);
}

}  // namespace esphome::scare_esphome
