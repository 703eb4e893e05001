/* Eight bytes of an uplink, and four of a downlink: scare_lorawan.h has the layout. */
#include "scare_lorawan.h"

#include "scare_port.h"

#define NO_DISTANCE 0xFFFu
#define NO_VALUE 0x7E00u       /* NaN as a half */
#define LARGEST_HALF 65504.0f  /* larger numbers are scaled down, */
#define SMALLEST_EXACT 0.0625f /* and smaller ones up, where a half keeps all its 11 bits */
#define SCALE_BIAS 8

/* A number that is neither NaN nor infinite. */
SCARE_SMALL int is_number(float x) {
    return x - x == 0.0f;
}

/* A half's bits of a number of at most LARGEST_HALF, rounded to the nearest, ties to even. `sent` is what they mean. */
SCARE_SMALL uint32_t to_half(float x, float *sent) {
    float size = SCARE_ABS(x), unit = 1.0f / 16777216.0f, steps; /* 2^-24 is the smallest half */
    uint32_t exponent = 0u, whole;
    while (size >= 2048.0f * unit) {
        unit *= 2.0f;
        exponent++;
    }
    steps = size / unit; /* exact: a power of two */
    whole = (uint32_t)steps;
    steps -= (float)whole;
    whole += steps > 0.5f || (steps == 0.5f && (whole & 1u)) ? 1u : 0u;
    *sent = x < 0.0f ? -(float)whole * unit : (float)whole * unit;
    /* 1,024 more steps are one more in the exponent: the carry of a sum does what is to be done at 2,048, too. */
    return (x < 0.0f ? 0x8000u : 0u) + exponent * 1024u + whole;
}

/* The smallest code that means at least this distance. */
SCARE_SMALL uint32_t to_distance(float distance) {
    float unit = 1.0f / 2097152.0f; /* 2^-21 */
    uint32_t exponent = 0u, whole;
    if (!is_number(distance)) {
        return NO_DISTANCE;
    }
    while (distance > 255.0f * unit && exponent < 32u) {
        unit *= 2.0f;
        exponent++;
    }
    if (exponent > 31u) {
        return NO_DISTANCE;
    }
    whole = distance > 128.0f * unit ? (uint32_t)(distance / unit) : 128u;
    whole += (float)whole * unit < distance ? 1u : 0u;
    return exponent * 128u + whole - 128u;
}

void scare_lorawan_pack(const scare_answer *answer, uint8_t payload[SCARE_LORAWAN_UPLINK]) {
    float value = answer->value, low = answer->low, high = answer->high, sent = 0.0f;
    uint32_t half = NO_VALUE, below = NO_DISTANCE, above = NO_DISTANCE, scale = SCALE_BIAS;
    if (is_number(value)) {
        while (SCARE_ABS(value) > LARGEST_HALF && scale < 15u) {
            value *= 0.1f, low *= 0.1f, high *= 0.1f;
            scale++;
        }
        while (value != 0.0f && SCARE_ABS(value) < SMALLEST_EXACT && scale > 0u) {
            value *= 10.0f, low *= 10.0f, high *= 10.0f;
            scale--;
        }
        if (SCARE_ABS(value) <= LARGEST_HALF) {
            half = to_half(value, &sent);
            below = to_distance(sent - low);
            above = to_distance(high - sent);
        }
    }
    payload[0] = (uint8_t)(SCARE_LORAWAN_VERSION << 4 | scale);
    payload[1] = (uint8_t)(half >> 8);
    payload[2] = (uint8_t)half;
    payload[3] = (uint8_t)(below >> 4);
    payload[4] = (uint8_t)(below << 4 | above >> 8);
    payload[5] = (uint8_t)above;
    payload[6] = (uint8_t)(answer->flags >> 8);
    payload[7] = (uint8_t)answer->flags;
}

scare_status scare_lorawan_read(const uint8_t *payload, size_t bytes, scare_lorawan_command *command) {
    command->every_seconds = 0u;
    command->reset = 0u;
    if (!payload || bytes != SCARE_LORAWAN_DOWNLINK) {
        return SCARE_DAMAGED;
    }
    if (payload[0] != SCARE_LORAWAN_VERSION << 4) {
        return SCARE_FOREIGN;
    }
    command->every_seconds = (uint32_t)payload[1] << 8 | payload[2];
    command->reset = payload[3] & 1u;
    return SCARE_OK;
}
