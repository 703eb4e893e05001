/* Prints, for simulated readings, the calibrated value and the bytes of its uplink in hexadecimal; then obeys a downlink.
 * On a board give `payload` to your LoRaWAN stack, such as LMIC_setTxData2 or LoRaMacMcpsRequest, on SCARE_LORAWAN_PORT. */
#include <stdio.h>

#include "$name.h"
#include "${name}_simulated.h"
#include "scare_lorawan.h"

int main(void) {
    static uint32_t memory[SCARE_WORDS(${upper}_BYTES)];
    static scare calibration;
    const uint8_t downlink[SCARE_LORAWAN_DOWNLINK] = {SCARE_LORAWAN_VERSION << 4, 300 >> 8, 300 & 255, 1};
    scare_lorawan_command command;
    scare_status status = scare_init(&calibration, &$name, memory, sizeof memory);
    if (status == SCARE_OK) status = scare_self_test(&calibration, &${name}_golden);
    if (status != SCARE_OK) {
        puts(scare_explain(status));
        return 1;
    }
    puts("value,low,high,flags,payload");
    for (uint32_t number = 0; number < ${upper}_WINDOW + 60u; number++) {
        float row[${upper}_CHANNELS];
        scare_answer answer;
        uint8_t payload[SCARE_LORAWAN_UPLINK];
        ${name}_simulate(number, row);
        scare_calibrate(&calibration, number * $name.step_ms, row, &answer);
        scare_lorawan_pack(&answer, payload);
        printf("%.9g,%.9g,%.9g,", (double)answer.value, (double)answer.low, (double)answer.high);
        printf("%lu,", (unsigned long)answer.flags);
        for (uint32_t i = 0; i < sizeof payload; i++) printf("%02x", payload[i]);
        puts("");
    }
    if (scare_lorawan_read(downlink, sizeof downlink, &command) == SCARE_OK) {
        if (command.reset) scare_reset(&calibration);
        printf("# from now on an uplink every %lu s\n", (unsigned long)command.every_seconds);
    }
    return 0;
}
