// Paints a picture point by point, as the game does: a cell is 6 by 9 points, and the browser shows each point as a
// whole number of the display's own pixels, so that nothing is blurred and blocks join without a seam.
import { HIGH, WIDE, glyphOf } from "./font.js";

// How many of the display's pixels a point takes so that all fits into `width` by `height` of CSS; less than one where
// a large monitor does not fit otherwise.
export function scaleOf(picture, width, height, ratio) {
  const most = Math.min((width * ratio) / (picture.width * WIDE), (height * ratio) / (picture.height * HIGH));
  return most < 1 ? most : Math.floor(most);
}

const LAST = 15;

// A colour as the four bytes of a point: red first, and nothing shines through.
function pointOf(colour = "#000000") {
  const light = Number.parseInt(colour.slice(1), 16);
  return new Uint32Array(Uint8Array.of(light >> 16, light >> 8, light, 255).buffer)[0];
}

export class Painter {
  #context;
  #line = null;
  #points = null;

  constructor(canvas) {
    this.canvas = canvas;
    this.#context = canvas.getContext("2d", { alpha: false });
  }

  // Makes the canvas as large as the picture; whether that changed it, so that all has to be painted.
  fit(picture) {
    const width = picture.width * WIDE, height = picture.height * HIGH;
    if (this.#line && this.canvas.width === width && this.canvas.height === height) return false;
    Object.assign(this.canvas, { width, height });
    this.#line = this.#context.createImageData(width, HIGH);
    this.#points = new Uint32Array(this.#line.data.buffer);
    return true;
  }

  // Paints the rows whose numbers, from 1, are among `which`; null: all of them.
  paint(picture, which, cursorOn) {
    const colours = Array.from({ length: LAST + 1 }, (_, index) => pointOf(picture.palette[index]));
    const of = (digit) => colours[Number.parseInt(digit, 16) & LAST];
    picture.rows.forEach((row, at) => {
      if (!row || (which && !which.has(at + 1))) return;
      row.text.forEach((char, column) => this.#cell(glyphOf(char), column, of(row.fg[column]), of(row.bg[column])));
      this.#context.putImageData(this.#line, 0, at * HIGH);
    });
    if (cursorOn) this.#cursor(picture);
  }

  #cell(glyph, column, front, behind) {
    for (let y = 0; y < HIGH; y += 1) {
      const from = y * this.#line.width + column * WIDE;
      for (let x = 0; x < WIDE; x += 1) this.#points[from + x] = (glyph[y] >> x) & 1 ? front : behind;
    }
  }

  #cursor(picture) {
    const { x, y } = picture;
    if (!picture.blink || x < 1 || y < 1 || x > picture.width || y > picture.height) return;
    const digit = picture.rows[y - 1]?.bg[x - 1] === "0" ? "f" : "0";
    this.#context.fillStyle = picture.palette[Number.parseInt(digit, 16)] ?? "#000000";
    this.#context.fillRect((x - 1) * WIDE, y * HIGH - 1, WIDE - 1, 1);
  }
}
