/* Out of integers. Into them: scare_push of scare.c. */
#include "scare_integer.h"

void scare_result_s8(float *out, const int32_t *x, float unit) {
    *out = (float)*x * unit;
}
