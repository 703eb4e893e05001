/* Ed25519 verification, small rather than fast: one function adds points and doubles them. Everything in it is public, so
 * it need not take the same time for all keys and messages. */
#include "scare_ed25519.h"

#include "scare_port.h"

#define LIMBS 8u

/* Eight words, the lowest first: a number modulo 2^256 - 38, which is twice the prime 2^255 - 19. */
typedef uint32_t number[LIMBS];

/* (x / z, y / z), and t = x y / z. */
typedef struct {
    number x, y, z, t;
} point;

static const number D = {0x135978a3u, 0x75eb4dcau, 0x4141d8abu, 0x00700a4du,
                         0x7779e898u, 0x8cc74079u, 0x2b6ffe73u, 0x52036ceeu};
static const number ROOT_OF_MINUS_1 = {0x4a0ea0b0u, 0xc4ee1b27u, 0xad2fe478u, 0x2f431806u,
                                       0x3dfbd7a7u, 0x2b4d0099u, 0x4fc1df0bu, 0x2b832480u};
static const number ORDER = {0x5cf5d3edu, 0x5812631au, 0xa2f79cd6u, 0x14def9deu, 0, 0, 0, 0x10000000u};
static const number BASE_X = {0x8f25d51au, 0xc9562d60u, 0x9525a7b2u, 0x692cc760u,
                              0xfdd6dc5cu, 0xc0a4e231u, 0xcd6e53feu, 0x216936d3u};
static const number BASE_Y = {0x66666658u, 0x66666666u, 0x66666666u, 0x66666666u,
                              0x66666666u, 0x66666666u, 0x66666666u, 0x66666666u};
static const number ONE = {1, 0, 0, 0, 0, 0, 0, 0};

/* ---- SHA-512 (FIPS 180-4) ---- */

#define BLOCK 128u /* bytes */

static const uint64_t ROUND[80] = {
    0x428a2f98d728ae22u, 0x7137449123ef65cdu, 0xb5c0fbcfec4d3b2fu, 0xe9b5dba58189dbbcu, 0x3956c25bf348b538u,
    0x59f111f1b605d019u, 0x923f82a4af194f9bu, 0xab1c5ed5da6d8118u, 0xd807aa98a3030242u, 0x12835b0145706fbeu,
    0x243185be4ee4b28cu, 0x550c7dc3d5ffb4e2u, 0x72be5d74f27b896fu, 0x80deb1fe3b1696b1u, 0x9bdc06a725c71235u,
    0xc19bf174cf692694u, 0xe49b69c19ef14ad2u, 0xefbe4786384f25e3u, 0x0fc19dc68b8cd5b5u, 0x240ca1cc77ac9c65u,
    0x2de92c6f592b0275u, 0x4a7484aa6ea6e483u, 0x5cb0a9dcbd41fbd4u, 0x76f988da831153b5u, 0x983e5152ee66dfabu,
    0xa831c66d2db43210u, 0xb00327c898fb213fu, 0xbf597fc7beef0ee4u, 0xc6e00bf33da88fc2u, 0xd5a79147930aa725u,
    0x06ca6351e003826fu, 0x142929670a0e6e70u, 0x27b70a8546d22ffcu, 0x2e1b21385c26c926u, 0x4d2c6dfc5ac42aedu,
    0x53380d139d95b3dfu, 0x650a73548baf63deu, 0x766a0abb3c77b2a8u, 0x81c2c92e47edaee6u, 0x92722c851482353bu,
    0xa2bfe8a14cf10364u, 0xa81a664bbc423001u, 0xc24b8b70d0f89791u, 0xc76c51a30654be30u, 0xd192e819d6ef5218u,
    0xd69906245565a910u, 0xf40e35855771202au, 0x106aa07032bbd1b8u, 0x19a4c116b8d2d0c8u, 0x1e376c085141ab53u,
    0x2748774cdf8eeb99u, 0x34b0bcb5e19b48a8u, 0x391c0cb3c5c95a63u, 0x4ed8aa4ae3418acbu, 0x5b9cca4f7763e373u,
    0x682e6ff3d6b2b8a3u, 0x748f82ee5defb2fcu, 0x78a5636f43172f60u, 0x84c87814a1f0ab72u, 0x8cc702081a6439ecu,
    0x90befffa23631e28u, 0xa4506cebde82bde9u, 0xbef9a3f7b2c67915u, 0xc67178f2e372532bu, 0xca273eceea26619cu,
    0xd186b8c721c0c207u, 0xeada7dd6cde0eb1eu, 0xf57d4f7fee6ed178u, 0x06f067aa72176fbau, 0x0a637dc5a2c898a6u,
    0x113f9804bef90daeu, 0x1b710b35131c471bu, 0x28db77f523047d84u, 0x32caab7b40c72493u, 0x3c9ebe0a15c9bebcu,
    0x431d67c49c100d4cu, 0x4cc5d4becb3e42b6u, 0x597f299cfc657e2au, 0x5fcb6fab3ad6faecu, 0x6c44198c4a475817u};

typedef struct {
    uint64_t state[8], word[16];
    uint32_t bytes;
} sha512;

static const sha512 START = {{0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu, 0x3c6ef372fe94f82bu, 0xa54ff53a5f1d36f1u,
                              0x510e527fade682d1u, 0x9b05688c2b3e6c1fu, 0x1f83d9abfb41bd6bu, 0x5be0cd19137e2179u},
                             {0},
                             0u};

SCARE_INLINE uint64_t rotated(uint64_t x, uint32_t right) {
    return x >> right | x << (64u - right);
}

SCARE_SMALL void compress(sha512 *self) {
    uint64_t s[8], *w = self->word;
    for (uint32_t i = 0u; i < 8u; i++) s[i] = self->state[i];
    SCARE_ROLLED
    for (uint32_t i = 0u; i < 80u; i++) {
        uint64_t *at = &w[i % 16u], first, second;
        if (i >= 16u) {
            uint64_t before = w[(i + 1u) % 16u], late = w[(i + 14u) % 16u];
            *at += (rotated(before, 1u) ^ rotated(before, 8u) ^ before >> 7) + w[(i + 9u) % 16u] +
                   (rotated(late, 19u) ^ rotated(late, 61u) ^ late >> 6);
        }
        first = s[7] + (rotated(s[4], 14u) ^ rotated(s[4], 18u) ^ rotated(s[4], 41u)) +
                ((s[4] & s[5]) ^ (~s[4] & s[6])) + ROUND[i] + *at;
        second = (rotated(s[0], 28u) ^ rotated(s[0], 34u) ^ rotated(s[0], 39u)) +
                 ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        SCARE_ROLLED
        for (uint32_t j = 7u; j > 0u; j--) s[j] = s[j - 1u];
        s[4] += first;
        s[0] = first + second;
    }
    for (uint32_t i = 0u; i < 8u; i++) self->state[i] += s[i];
}

static void feed(sha512 *self, const void *content, size_t count) {
    const uint8_t *byte = content;
    SCARE_ROLLED
    for (; count > 0u; count--) {
        uint64_t *word = &self->word[self->bytes / 8u % 16u];
        *word = *word << 8 | *byte++;
        if (++self->bytes % BLOCK == 0u) compress(self);
    }
}

SCARE_SMALL void finish(sha512 *self, uint8_t *digest) {
    static const uint8_t padding[2] = {0x80, 0};
    uint64_t bits = (uint64_t)self->bytes * 8u;
    feed(self, padding, 1u);
    SCARE_ROLLED
    while (self->bytes % BLOCK != BLOCK - 16u) feed(self, padding + 1, 1u);
    self->word[14] = 0u;
    self->word[15] = bits;
    compress(self);
    for (uint32_t i = 0u; i < SCARE_SHA512_BYTES; i++)
        digest[i] = (uint8_t)(self->state[i / 8u] >> (56u - i % 8u * 8u));
}

void scare_sha512(uint8_t *digest, const void *content, size_t bytes) {
    sha512 self = START;
    feed(&self, content, bytes);
    finish(&self, digest);
}

/* ---- numbers ---- */

/* result + 38 carry, for a small carry beyond 256 bits. */
static void fold(uint32_t *result, int32_t carry) {
    SCARE_ROLLED
    while (carry != 0) {
        int64_t sum = carry * 38;
        SCARE_ROLLED
        for (uint32_t i = 0u; i < LIMBS; i++) {
            sum += result[i];
            result[i] = (uint32_t)sum;
            sum >>= 32;
        }
        carry = (int32_t)sum;
    }
}

static void add(uint32_t *result, const uint32_t *a, const uint32_t *b) {
    uint64_t sum = 0u;
    for (uint32_t i = 0u; i < LIMBS; i++) {
        sum += (uint64_t)a[i] + b[i];
        result[i] = (uint32_t)sum;
        sum >>= 32;
    }
    fold(result, (int32_t)sum);
}

/* a - b below 2^256; 1 if a < b. */
static uint32_t borrow(uint32_t *result, const uint32_t *a, const uint32_t *b) {
    int64_t sum = 0;
    for (uint32_t i = 0u; i < LIMBS; i++) {
        sum += (int64_t)a[i] - b[i];
        result[i] = (uint32_t)sum;
        sum >>= 32;
    }
    return sum != 0;
}

static void subtract(uint32_t *result, const uint32_t *a, const uint32_t *b) {
    int32_t borrowed = (int32_t)borrow(result, a, b);
    fold(result, -borrowed);
}

/* a b + low + high, as a low and a high word. */
SCARE_INLINE void multiply_words(uint32_t a, uint32_t b, uint32_t *low, uint32_t *high) {
#if defined(__thumb2__) && defined(__ARM_FEATURE_DSP)
    __asm__("umaal %0, %1, %2, %3" : "+r"(*low), "+r"(*high) : "r"(a), "r"(b));
#else
    uint64_t sum = (uint64_t)a * b + *low + *high;
    *low = (uint32_t)sum;
    *high = (uint32_t)(sum >> 32);
#endif
}

static void multiply(uint32_t *result, const uint32_t *a, const uint32_t *b) {
    uint32_t product[2u * LIMBS], carry;
    for (uint32_t i = 0u; i < LIMBS; i++) product[i] = 0u;
    SCARE_ROLLED
    for (uint32_t i = 0u; i < LIMBS; i++) {
        uint32_t word = a[i];
        carry = 0u;
        for (uint32_t j = 0u; j < LIMBS; j++) multiply_words(word, b[j], &product[i + j], &carry);
        product[i + LIMBS] = carry;
    }
    carry = 0u;
    for (uint32_t i = 0u; i < LIMBS; i++) {
        result[i] = product[i];
        multiply_words(product[i + LIMBS], 38u, &result[i], &carry);
    }
    fold(result, (int32_t)carry);
}

static void copy(uint32_t *to, const uint32_t *from) {
    for (uint32_t i = 0u; i < LIMBS; i++) to[i] = from[i];
}

/* x to the power of 2^bits - 1 without the bits of `missing`; 2^255 - 21 inverts, 2^252 - 3 leads to a square root. */
SCARE_SMALL void power(uint32_t *result, const uint32_t *x, uint32_t bits, uint32_t missing) {
    number found, base;
    copy(base, x);
    copy(found, ONE);
    SCARE_ROLLED
    while (bits-- > 0u) {
        multiply(found, found, found);
        if (bits >= 32u || !(missing >> bits & 1u)) multiply(found, found, base);
    }
    copy(result, found);
}

/* Reduce a number below 2^256 modulo the prime. */
SCARE_SMALL void reduce(uint32_t *x) {
    static const number prime = {0xffffffedu, 0xffffffffu, 0xffffffffu, 0xffffffffu,
                                 0xffffffffu, 0xffffffffu, 0xffffffffu, 0x7fffffffu};
    number less;
    SCARE_ROLLED
    while (!borrow(less, x, prime)) copy(x, less);
}

static uint32_t is_equal(const uint32_t *a, const uint32_t *b) {
    uint32_t different = 0u;
    for (uint32_t i = 0u; i < LIMBS; i++) different |= a[i] ^ b[i];
    return different == 0u;
}

static void load(uint32_t *to, const uint8_t *bytes) {
    for (uint32_t i = 0u; i < LIMBS; i++, bytes += 4)
        to[i] = bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* 512 bits modulo the order of the base point, bit by bit. */
SCARE_SMALL void reduce_by_order(uint32_t *result, const uint8_t *bytes) {
    number less;
    for (uint32_t i = 0u; i < LIMBS; i++) result[i] = 0u;
    SCARE_ROLLED
    for (uint32_t bit = 512u; bit-- > 0u;) {
        for (uint32_t i = LIMBS - 1u; i > 0u; i--) result[i] = result[i] << 1 | result[i - 1u] >> 31;
        result[0] = result[0] << 1 | (bytes[bit / 8u] >> bit % 8u & 1u);
        if (!borrow(less, result, ORDER)) copy(result, less);
    }
}

/* The hash of the first half of a signature, a key and a message, modulo that order. */
SCARE_SMALL void hash_parts(uint32_t *hash, const uint8_t *signature, const uint8_t *key, const void *message,
                            size_t bytes) {
    sha512 self = START;
    uint8_t digest[SCARE_SHA512_BYTES];
    feed(&self, signature, 32u);
    feed(&self, key, SCARE_KEY_BYTES);
    feed(&self, message, bytes);
    finish(&self, digest);
    reduce_by_order(hash, digest);
}

/* ---- points ---- */

/* a + b (RFC 8032, section 5.1.4). */
SCARE_SMALL void add_points(point *sum, const point *a, const point *b) {
    number e, f, g, h, c;
    subtract(e, a->y, a->x);
    subtract(f, b->y, b->x);
    multiply(c, e, f); /* (y1 - x1) (y2 - x2) */
    add(e, a->y, a->x);
    add(f, b->y, b->x);
    multiply(h, e, f); /* (y1 + x1) (y2 + x2) */
    subtract(e, h, c);
    add(h, h, c);
    multiply(c, a->t, b->t);
    multiply(c, c, D);
    add(c, c, c); /* 2 d t1 t2 */
    multiply(g, a->z, b->z);
    add(g, g, g); /* 2 z1 z2 */
    subtract(f, g, c);
    add(g, g, c);
    multiply(sum->x, e, f);
    multiply(sum->y, g, h);
    multiply(sum->t, e, h);
    multiply(sum->z, f, g);
}

/* Decode the negative of a point (section 5.1.3); whether there is one. */
SCARE_SMALL uint32_t decode_negative(point *result, const uint8_t *bytes) {
    number u, v, x, square;
    uint32_t odd = bytes[31] >> 7;
    load(result->y, bytes);
    result->y[7] &= 0x7fffffffu;
    copy(result->z, ONE);
    multiply(u, result->y, result->y);
    multiply(v, u, D);
    subtract(u, u, ONE); /* x^2 = u / v */
    add(v, v, ONE);
    multiply(square, v, v);
    multiply(x, square, v); /* x = u v^3 (u v^7)^((p - 5) / 8) */
    multiply(square, x, x);
    multiply(square, square, v);
    multiply(square, square, u);
    power(square, square, 252u, 1u << 1);
    multiply(x, x, u);
    multiply(x, x, square);
    reduce(u);
    for (uint32_t turn = 0u; turn < 2u; turn++) {
        multiply(square, x, x);
        multiply(square, square, v);
        reduce(square);
        if (is_equal(square, u)) {
            reduce(x);
            if ((x[0] & 1u) == odd) {
                static const number zero = {0};
                subtract(x, zero, x);
            }
            copy(result->x, x);
            multiply(result->t, x, result->y);
            return 1u;
        }
        multiply(x, x, ROOT_OF_MINUS_1);
    }
    return 0u;
}

/* Whether eight times the point is neutral: with such a key, such as 32 zeros, anybody could sign. */
SCARE_SMALL uint32_t is_small(const point *key) {
    static const number zero = {0};
    point eight = *key;
    for (uint32_t i = 0u; i < 3u; i++) add_points(&eight, &eight, &eight);
    reduce(eight.x);
    return is_equal(eight.x, zero);
}

SCARE_COMPACT int scare_ed25519_verify(const uint8_t *signature, const uint8_t *key, const void *message,
                                       size_t bytes) {
    point sum = {{0}, {1}, {1}, {0}}, base, both, minus_key;
    number factor, hash, expected;
    load(factor, signature + 32);
    if (!borrow(expected, factor, ORDER) || !decode_negative(&minus_key, key) || is_small(&minus_key)) return 0;
    hash_parts(hash, signature, key, message, bytes);
    copy(base.x, BASE_X);
    copy(base.y, BASE_Y);
    copy(base.z, ONE);
    multiply(base.t, BASE_X, BASE_Y);
    add_points(&both, &base, &minus_key);
    SCARE_ROLLED
    for (uint32_t bit = 256u; bit-- > 0u;) { /* factor * base - hash * key, both at once */
        uint32_t in_factor = factor[bit / 32u] >> bit % 32u & 1u, in_hash = hash[bit / 32u] >> bit % 32u & 1u;
        add_points(&sum, &sum, &sum);
        if (in_factor | in_hash) add_points(&sum, &sum, in_factor & in_hash ? &both : in_factor ? &base : &minus_key);
    }
    power(sum.z, sum.z, 255u, 1u << 2 | 1u << 4);
    multiply(sum.x, sum.x, sum.z);
    multiply(sum.y, sum.y, sum.z);
    reduce(sum.x);
    reduce(sum.y);
    sum.y[7] |= sum.x[0] << 31;
    load(expected, signature);
    return (int)is_equal(sum.y, expected);
}
