// What a calibrator needs on a board, in words.
import { number } from "./pages/format.js";

export const KB = (bytes) => `${number(bytes / 1024)} KB`;

// Fixed point where the board can: its kernels need an int of 32 bits.
export const arithmetic = (board) => (board.int_bits < 32 ? "float32" : "fixed");

export const fits = (found, board) => (found.fits
  ? `It fits ${board.title}: ${KB(found.ram_bytes)} of ${KB(board.ram)} memory, ${KB(found.flash_bytes)} of ${KB(board.flash)} flash.`
  : `It does not fit ${board.title}: ${found.reasons.join("; ")}.`);
