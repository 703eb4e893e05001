/* Reads a PMS5003 and prints, once every step, the mean of its readings with the calibrated value, interval and flags
 * as CSV. A row without a calibrated value gets nan; the last column says why. */

// #define SIMULATED // simulate readings, without a sensor

#ifndef SENSOR
#define SENSOR Serial1 // the port that the sensor's TXD is wired to; a board without one takes a SoftwareSerial
#endif
#ifndef DECIMALS
#define DECIMALS 3
#endif

#include <$name.h>
#ifdef SIMULATED
#include <${name}_simulated.h>
#else
#include "pms5003.h"
#endif

static uint32_t memory[SCARE_WORDS(${upper}_BYTES)];
static scare calibration;
static float sums[${upper}_CHANNELS];
static uint32_t rows, begun_ms;

/* Read one row, in the model's order; false if there is none yet. */
static bool read_row(float row[${upper}_CHANNELS]) {
#ifdef SIMULATED
    delay($name.step_ms < 1000 ? $name.step_ms : 1000);
    ${name}_simulate((uint32_t)millis() / $name.step_ms, row);
    return true;
#else
    float pms[PMS5003_NUMBERS];
    if (!pms5003_read(SENSOR, pms)) return false;
$rows
    return true;
#endif
}

void setup() {
    Serial.begin(115200);
#ifndef SIMULATED
    SENSOR.begin(9600);
#endif
    scare_status status = scare_init(&calibration, &$name, memory, sizeof memory);
    if (status == SCARE_OK) status = scare_self_test(&calibration, &${name}_golden);
    if (status != SCARE_OK) {
        Serial.println(scare_explain(status));
        for (;;) delay(1000);
    }
    begun_ms = (uint32_t)millis();
    Serial.println(F("$heading"));
}

void loop() {
    float row[${upper}_CHANNELS];
    if (read_row(row)) {
        for (uint32_t i = 0; i < ${upper}_CHANNELS; i++) sums[i] += row[i];
        rows++;
    }
    if ((uint32_t)millis() - begun_ms < $name.step_ms) return;
    begun_ms += $name.step_ms;
    for (uint32_t i = 0; i < ${upper}_CHANNELS; i++) {
        row[i] = rows ? sums[i] / (float)rows : NAN;
        sums[i] = 0;
        Serial.print(row[i], DECIMALS);
        Serial.print(',');
    }
    rows = 0;
    scare_answer answer;
    scare_status status = scare_calibrate(&calibration, begun_ms, row, &answer);
    const float numbers[] = {answer.value, answer.low, answer.high};
    for (uint32_t i = 0; i < 3; i++) {
        Serial.print(numbers[i], DECIMALS);
        Serial.print(',');
    }
    Serial.print((unsigned long)answer.flags);
    Serial.print(',');
    Serial.println(scare_explain(status));
}
