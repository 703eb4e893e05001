/* Fixed-point kernels for generated code. Their NumPy counterparts, equal in every bit, are the kernels `…_q` in
 * scare/kernels. Arguments come in the order of scare_kernels.h.
 *
 * A window holds int16_t, channel after channel, other values int32_t. Tables are in the order in which they are read,
 * on word boundaries. Shifting a negative number right must keep its sign, as every compiler for these boards does. */
#ifndef SCARE_FIXED_H
#define SCARE_FIXED_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The largest sizes that the kernels have headroom for. */
#define SCARE_WIDEST_Q 32u   /* numbers in a token */
#define SCARE_SUPPORTS_Q 64u /* supports of a hash */
#define SCARE_POWERS_Q 12u   /* coefficients of its polynomial, which has no constant term */
#define SCARE_HIDDEN_Q 128u  /* numbers in a hidden layer */
#define SCARE_TOKENS_Q 32u   /* tokens in a softmax attention */

/* ---- window ---- */

/* Projections of the window. `older` rows, a multiple of eight, have weights of 8 bits: blocks of four projections, the
 * last of three filled up with zeros, with four samples each for two projections at a time, 256 * second + first in 16
 * bits, then single projections with four samples each in the order 0 2 1 3; `newer` rows of 16 bits, blocks of pairs.
 * Channels with older rows are on word boundaries. `scales`: coarse, fine and bias of each projection. per_channel: one
 * result for each channel, [rows][channels]. */
void scare_project_q(int32_t *out, const int16_t *window, const int8_t *older_weights, const int16_t *newer_weights,
                     const int32_t *scales, uint32_t stride, uint32_t channels, uint32_t per_channel, uint32_t older,
                     uint32_t newer, uint32_t rows, uint32_t shift);

/* Sums under hats, [knots][channels]. `segments`, for each segment between two knots, oldest first: pairs of rows, whether
 * the last pair before them is read again, bits by which their sum is shifted to that of the nearer knot, and bits by
 * which that of the farther knot is. `shares` of the farther knot: for each pair that is read two. A last row that an odd
 * window lacks is zero. */
void scare_hat_basis_q(int32_t *out, const int16_t *window, const uint16_t *segments, const int16_t *shares,
                       uint32_t stride, uint32_t channels, uint32_t knots);

/* Weighted sums over runs of rows, [bins][channels]. */
void scare_bins_q(int32_t *out, const int16_t *window, const int16_t *weights, const uint16_t *starts,
                  const int32_t *scales, uint32_t stride, uint32_t rows, uint32_t channels, uint32_t bins,
                  uint32_t shift);

/* weights times x [rows][channels]: [lenses][channels]. Weights as of scare_dense_q: rows are inputs, lenses outputs. */
void scare_lens_q(int32_t *out, const int32_t *x, const int16_t *weights, uint32_t rows, uint32_t channels,
                  uint32_t lenses);

/* ---- linear ---- */

/* x [rows][inputs] times weights, in blocks of four outputs and two inputs, [outputs / 4][inputs / 2][2][4]; bias and
 * weights filled up with zeros. */
void scare_dense_q(int32_t *out, const int32_t *x, const int16_t *weights, const int32_t *bias, const uint8_t *shifts,
                   uint32_t rows, uint32_t inputs, uint32_t outputs);

/* Like the above, for one row and one output. */
void scare_dense_1_q(int32_t *out, const int32_t *x, const int16_t *weights, uint32_t inputs, int32_t bias,
                     uint32_t shift);

/* ---- pointwise ---- */

/* a + b / 2^shift. In place. */
void scare_add_q(int32_t *out, const int32_t *a, const int32_t *b, uint32_t count, uint32_t shift);

/* The newest row as words. */
void scare_newest_q(int32_t *out, const int16_t *window, uint32_t stride, uint32_t rows, uint32_t channels);

/* `scales`: gain and bias of each number of a row, filled up to an even number of them. In place. */
void scare_layer_norm_q(int32_t *out, const int32_t *x, const int32_t *scales, uint32_t rows, uint32_t width,
                        uint32_t epsilon_low, uint32_t epsilon_high);

/* Like the above, for a width of 8. */
void scare_layer_norm_8_q(int32_t *out, const int32_t *x, const int32_t *scales, uint32_t rows, uint32_t epsilon_low,
                          uint32_t epsilon_high);

/* The word x, plus an offset, as a float: `unit` is in units of the scaled target. */
void scare_result_q(float *out, const int32_t *x, int32_t offset, float unit);

/* ---- attention ---- */

/* Codes of the rows of x. Supports [supports][width], both sizes filled up with zeros to a multiple of eight;
 * projection, for each bit, the highest first: the two halves of a word, the bias, then as many weights as there are
 * supports. */
void scare_hash_codes_q(uint32_t *codes, const int32_t *x, const int16_t *support, const int32_t *coefficients,
                        const int16_t *projection, uint32_t rows, uint32_t width, uint32_t supports, uint32_t bits,
                        uint32_t degree);

/* Like the above, for a width of 8, 16 supports, a polynomial of degree 4 and a multiple of four bits. */
void scare_hash_codes_8_16_q(uint32_t *codes, const int32_t *x, const int16_t *support, const int32_t *coefficients,
                             const int16_t *projection, uint32_t rows, uint32_t bits);

/* Attention by the bits in which codes, of 16 bits at most, differ; `most` is the weight of equal codes, the width a
 * multiple of four. Sums of values of 15 bits times weights leave `headroom` bits of a word. Work: (rows + 1) / 2
 * (width + 2). */
void scare_bitwise_attention_q(int32_t *out, const uint32_t *queries, const uint32_t *keys, const int32_t *values,
                               uint32_t rows, uint32_t width, uint32_t most, uint32_t headroom);

/* Like the above, for a width of 8. */
void scare_bitwise_attention_8_q(int32_t *out, const uint32_t *queries, const uint32_t *keys, const int32_t *values,
                                 uint32_t rows, uint32_t most, uint32_t headroom);

/* Softmax attention; work: queries and keys in pairs of numbers, values in pairs of rows. */
void scare_softmax_attention_q(int32_t *out, const int32_t *queries, const int32_t *keys, const int32_t *values,
                               uint32_t rows, uint32_t heads, uint32_t width, uint32_t value_width, int32_t sharpness,
                               int32_t bits, uint32_t score_bits, uint32_t value_bits, uint32_t headroom);

/* ---- formulas ---- */

/* out [count (count + 1) / 2]: half of each product of two of x [count] · factors / 2^32, which are clamped at ±top and
 * kept at the end of the output until they are used. */
void scare_products_q(int32_t *out, const int32_t *x, const int32_t *factors, uint32_t count, int32_t top);

/* ---- fused ---- */

/* seen [rows][channels] · local + share [rows] × (shared [width] · mix) + bias; width 0: no mix. Four outputs at a
 * time: local [outputs / 4][channels][4]; mix as the weights of scare_dense_q; rest [outputs / 4][rows]: share, then
 * four biases. */
void scare_token_rows_q(int32_t *out, const int32_t *seen, const int32_t *shared, const int16_t *local,
                        const int16_t *mix, const int32_t *rest, uint32_t rows, uint32_t channels, uint32_t width,
                        uint32_t outputs);

/* Like the above, for eight outputs at once: local [channels][8], rest [rows]: share, then eight biases. */
void scare_token_rows_8_q(int32_t *out, const int32_t *seen, const int32_t *shared, const int16_t *local,
                          const int16_t *mix, const int32_t *rest, uint32_t rows, uint32_t channels, uint32_t width);

/* Like the above, for one channel. */
void scare_token_rows_1_8_q(int32_t *out, const int32_t *seen, const int32_t *shared, const int16_t *local,
                            const int16_t *mix, const int32_t *rest, uint32_t rows, uint32_t width);

/* inner [hidden]: the two halves of a word, the bias, then the weights; outer in blocks of four outputs,
 * [width / 4][hidden / 2][4][2], with outer_bias. All filled up with zeros: hidden to eight, width to eight for the
 * inner weights, to four for the outer. */
void scare_feed_forward_q(int32_t *out, const int32_t *x, const int16_t *inner, const int16_t *outer,
                          const int32_t *outer_bias, uint32_t rows, uint32_t width, uint32_t hidden, uint32_t most,
                          int32_t bits);

/* Like the above, for a width of 8; outer [hidden / 2][8][2]. */
void scare_feed_forward_8_q(int32_t *out, const int32_t *x, const int16_t *inner, const int16_t *outer,
                            const int32_t *outer_bias, uint32_t rows, uint32_t hidden, uint32_t most, int32_t bits);

/* One number: rows of x times `straight` [rows][width, even], plus the hidden layer of scare_feed_forward_q times
 * `outer` [rows][hidden, a multiple of eight], plus the bias. */
void scare_read_out_q(int32_t *out, const int32_t *x, const int16_t *inner, const int16_t *outer,
                      const int16_t *straight, uint32_t rows, uint32_t width, uint32_t hidden, uint32_t most,
                      int32_t bits, int32_t bias);

/* Like the above, for a width of 8. */
void scare_read_out_8_q(int32_t *out, const int32_t *x, const int16_t *inner, const int16_t *outer,
                        const int16_t *straight, uint32_t rows, uint32_t hidden, uint32_t most, int32_t bits,
                        int32_t bias);

/* ---- trees ---- */

/* Like scare_trees_f32; a threshold is shifted left by `shift` bits before it is compared, the sum of the leaves by `up`.
 * Magnitudes of inputs are below 2^30. */
void scare_trees_q(int32_t *out, const int32_t *x, const uint8_t *features, const int16_t *table, const int32_t *guard,
                   uint32_t trees, uint32_t depth, uint32_t guarded, uint32_t shift, uint32_t up);

/* Like the above, for a depth of 3. */
void scare_trees_3_q(int32_t *out, const int32_t *x, const uint8_t *features, const int16_t *table,
                     const int32_t *guard, uint32_t trees, uint32_t guarded, uint32_t shift, uint32_t up);

/* Like the first, for more than 256 inputs. */
void scare_trees_wide_q(int32_t *out, const int32_t *x, const uint16_t *features, const int16_t *table,
                        const int32_t *guard, uint32_t trees, uint32_t depth, uint32_t guarded, uint32_t shift,
                        uint32_t up);

/* Like the above, of the window; guarded are its oldest numbers, row after row. */
void scare_trees_window_q(int32_t *out, const int16_t *window, const uint16_t *features, const int16_t *table,
                          const int32_t *guard, uint32_t trees, uint32_t depth, uint32_t guarded, uint32_t stride,
                          uint32_t channels, uint32_t shift, uint32_t up);

#ifdef __cplusplus
}
#endif

#endif
