/* Calibrates made-up readings by a model in the flash of an ESP32, and takes a new one over the serial port: a line
 * `blob BYTES`, then the file. In the Arduino IDE choose a partition scheme of your own: partitions.csv beside this
 * sketch. Read your own sensor instead of calling ${name}_simulate. */
#include <$name.h>
#include <${name}_simulated.h>
#include <scare_slots_esp32.h>

/* Your public key, which `scare export key --out owner.pem` prints; with zeros no file is taken. */
static const uint8_t owner[32] = {0};

static uint32_t memory[SCARE_WORDS(${upper}_BYTES)]; // more if later models may be larger
static scare calibration;
static scare_blob blob;
static scare_slots slots;
static uint32_t row_number, begun_ms, values;
static size_t expected, received;

static bool begin_calibration() {
    scare_status status = scare_slots_begin(&slots, &blob, &calibration, memory, sizeof memory);
    if (status != SCARE_OK) { // no file yet, or a bad one: the model in the firmware, which needs no signature
        Serial.println(scare_explain(status));
        status = scare_blob_open_unsigned(&blob, ${name}_content, sizeof ${name}_content);
        if (status == SCARE_OK) status = scare_init(&calibration, &blob.model, memory, sizeof memory);
        if (status == SCARE_OK) status = scare_self_test(&calibration, &blob.golden);
    }
    Serial.println(status == SCARE_OK ? blob.title : scare_explain(status));
    values = 0;
    return status == SCARE_OK;
}

/* Take pieces of a file as they come; when it is complete, try it. */
static void receive() {
    uint8_t piece[64];
    if (!expected && Serial.available() > 0) {
        String line = Serial.readStringUntil('\n');
        if (line.startsWith("blob ")) expected = (size_t)line.substring(5).toInt();
        received = 0;
    }
    while (received < expected && Serial.available() > 0) {
        size_t bytes = Serial.readBytes(piece, expected - received < sizeof piece ? expected - received : sizeof piece);
        if (!scare_slots_write(&slots, received, piece, bytes)) expected = 0;
        received += bytes;
    }
    if (!expected || received < expected) return;
    expected = 0;
    scare_status status = scare_slots_switch(&slots);
    Serial.println(status == SCARE_OK ? "taken" : scare_explain(status));
    if (status == SCARE_OK) begin_calibration();
}

void setup() {
    Serial.begin(115200);
    bool found = scare_slots_find(&slots, owner, ${upper}_INPUTS);
    if (!found) Serial.println("there is no partition called scare");
    while (!found || !begin_calibration()) delay(1000);
    begun_ms = (uint32_t)millis();
}

void loop() {
    float row[${upper}_CHANNELS];
    scare_answer answer;
    receive();
    if ((uint32_t)millis() - begun_ms < blob.model.step_ms) {
        delay(1);
        return;
    }
    begun_ms += blob.model.step_ms;
    ${name}_simulate(row_number++, row);
    scare_status status = scare_calibrate(&calibration, begun_ms, row, &answer);
    if (status == SCARE_OK && ++values == 10) scare_slots_confirm(&slots); // it works: keep it
    Serial.print(answer.value, 3);
    Serial.print(',');
    Serial.println(scare_explain(status));
}
