// What a calibrator takes on a board, in words.
import { number } from "./pages/words.js";

export const KB = (bytes) => `${number(bytes / 1024)} KB`;

export const fits = (found, board) => (found.fits
  ? `It fits ${board.title}: ${KB(found.ram_bytes)} of ${KB(board.ram)} memory, ${KB(found.flash_bytes)} of ${KB(board.flash)} flash, in whole numbers.`
  : `It does not fit ${board.title}: ${found.reasons.join("; ")}.`);
