/* Frames of a Plantower PMS5003 in active mode, 32 bytes each: the header 42 4D, two bytes of length, thirteen 16-bit
 * numbers (big-endian), and a checksum, which is the sum of all other bytes. */
#ifndef PMS5003_H
#define PMS5003_H

#include <Arduino.h>

/* The first six numbers, in ug/m3: factory calibration (CF = 1), then under atmospheric conditions. */
enum { PM1_CF1, PM25_CF1, PM10_CF1, PM1_ATM, PM25_ATM, PM10_ATM, PMS5003_NUMBERS };

/* Whether a complete frame has arrived, which is then in `numbers`; invalid bytes are skipped. Never waits. */
static bool pms5003_read(Stream &port, float numbers[PMS5003_NUMBERS]) {
    static const uint8_t begin[] = {0x42, 0x4D, 0, 28};
    static uint8_t frame[32];
    static uint8_t filled = 0;
    while (port.available() > 0) {
        frame[filled] = (uint8_t)port.read();
        if (filled < sizeof begin && frame[filled] != begin[filled]) {
            frame[0] = frame[filled];
            filled = frame[0] == begin[0];
            continue;
        }
        if (++filled < sizeof frame) continue;
        filled = 0;
        uint16_t sum = 0;
        for (uint8_t i = 0; i < sizeof frame - 2; i++) sum = (uint16_t)(sum + frame[i]);
        if (sum != (uint16_t)(frame[30] << 8 | frame[31])) continue;
        for (uint8_t i = 0; i < PMS5003_NUMBERS; i++) {
            numbers[i] = (float)(uint16_t)(frame[4 + 2 * i] << 8 | frame[5 + 2 * i]);
        }
        return true;
    }
    return false;
}

#endif
