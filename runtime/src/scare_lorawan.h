/* A calibrated value with its interval and flags in eight bytes, for an uplink of LoRaWAN, and the command of a
 * downlink. `codec.js` of `scare export lorawan` reads and writes the same bytes on the network server.
 *
 * Uplink, most significant byte first:
 *   4 bits   version of this layout
 *   4 bits   scale: the exponent of ten by which the numbers are to be multiplied, plus 8
 *   16 bits  value: an IEEE 754 half (11 bits of precision), NaN if there is none
 *   12 bits  from the value as sent down to the low end: 5 bits exponent e, 7 bits m: (128 + m) * 2^(e - 21)
 *   12 bits  from there up to the high end; all bits set: the model has no interval, or there is no value
 *   16 bits  flags
 * Ends are rounded outwards, so the interval is never narrower than the board's. */
#ifndef SCARE_LORAWAN_H
#define SCARE_LORAWAN_H

#include "scare.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SCARE_LORAWAN_VERSION 1
#define SCARE_LORAWAN_PORT 10 /* the FPort of both directions */
#define SCARE_LORAWAN_UPLINK 8
#define SCARE_LORAWAN_DOWNLINK 4

/* What a downlink asks for: seconds between uplinks (0: as before), and whether to forget all readings. */
typedef struct {
    uint32_t every_seconds, reset;
} scare_lorawan_command;

/* Pack an answer of scare_calibrate, whatever its status was. */
void scare_lorawan_pack(const scare_answer *answer, uint8_t payload[SCARE_LORAWAN_UPLINK]);

/* Read a downlink: SCARE_OK, SCARE_DAMAGED (another length) or SCARE_FOREIGN (another version); without SCARE_OK the
 * command asks for nothing. */
scare_status scare_lorawan_read(const uint8_t *payload, size_t bytes, scare_lorawan_command *command);

#ifdef __cplusplus
}
#endif

#endif
