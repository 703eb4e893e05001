/* Fixed-point kernels: products of values. */
#include "fixed_q.h"
#include "scare_fixed.h"

void scare_products_q(int32_t *out, const int32_t *x, const int32_t *factors, uint32_t count, int32_t top) {
    int32_t *clamped = out + count * (count - 1u) / 2u;
    SCARE_ROLLED
    for (uint32_t i = 0u; i < count; i++) {
        int32_t number = scare_rounded((int64_t)x[i] * factors[i], 32u);
        clamped[i] = scare_most(scare_least(number, top), -top);
    }
    SCARE_ROLLED
    for (const int32_t *end = clamped + count; clamped != end; clamped++) {
        int32_t first = *clamped;
        SCARE_ROLLED
        for (const int32_t *second = clamped; second != end; second++) *out++ = (first * *second + 1) >> 1;
    }
}
