/* Learns a correction on the board while the sensor stands beside a reference. Both are simulated: the reference says 3
 * more than the calibrated value. Prints the calibrated value, the same corrected, and what the learner said; after two
 * rounds of eight simulated hours, in less than a minute, it has a correction, which grows from round to round. Keep the
 * blob in EEPROM or flash, so that the correction survives a loss of power. */
#include <scare.h>
#include <scare_learn.h>

#include "$name.h"
#include "${name}_learning.h"
#include "${name}_simulated.h"

static uint32_t memory[SCARE_WORDS(${upper}_BYTES)];
static scare calibration;
static scare_learner learner;
static uint8_t blob[SCARE_LEARN_BYTES];
static uint32_t number;

void setup() {
    Serial.begin(115200);
    scare_status status = scare_init(&calibration, &$name, memory, sizeof memory);
    if (status == SCARE_OK) status = scare_self_test(&calibration, &${name}_golden);
    if (status == SCARE_OK) status = scare_learn_init(&learner, &${name}_learning);
    if (status != SCARE_OK) {
        Serial.println(scare_explain(status));
        for (;;) delay(1000);
    }
    Serial.println(F("calibrated,corrected,learned"));
}

void loop() {
    float row[${upper}_CHANNELS];
    scare_answer answer;
    delay(50); // in real life $name.step_ms milliseconds
    ${name}_simulate(number, row);
    if (scare_calibrate(&calibration, number++ * $name.step_ms, row, &answer) != SCARE_OK) return;
    const float calibrated = answer.value;
    scare_learn_correct(&learner, &calibration, &answer);
    const float reference = calibrated + 3.0f; // read your reference here, or leave the next lines out without one
    scare_learn_hold(&learner, &calibration, &answer, reference);
    const scare_learned learned = scare_learn(&learner, &calibration, calibrated, reference);
    if (learned >= SCARE_LEARN_BETTER) scare_learn_store(&learner, blob, sizeof blob);
    Serial.print(calibrated, 3);
    Serial.print(',');
    Serial.print(answer.value, 3);
    Serial.print(',');
    Serial.println(learned == SCARE_LEARN_BETTER ? "better" : learned == SCARE_LEARN_REVERTED ? "reverted" : "");
}
