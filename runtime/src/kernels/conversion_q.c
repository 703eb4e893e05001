/* Out of integers. Into them: scare_push of scare.c. */
#include "scare_fixed.h"

void scare_result_q(float *out, const int32_t *x, float unit) {
    *out = (float)*x * unit;
}
