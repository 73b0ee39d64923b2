// Paints a picture on a canvas, cell by cell: sharp at any size, with the game's proportions, 6 to 9.
//
// Theory. A cell is a whole number of the display's own pixels. Blocks, of which the game's drawings are made, are
// painted here, so that they join without a seam whatever fonts there are; letters are the browser's, stretched to a
// cell's width.
const FONT = '"Cascadia Mono", "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace';
const HALF = 0x258c, BLOCKS = 0x1fb00, SHADE = 0x1fb99;
// Signs that some systems would draw as coloured pictures, unless they are told that this is text.
const AS_TEXT = "\ufe0e";

// The size of a cell in the display's pixels, so that the whole fits into `width` by `height` of CSS.
export function cellOf(picture, width, height, ratio) {
  const across = (width * ratio) / picture.width;
  const down = ((height * ratio) / picture.height) * (6 / 9);
  const cell = Math.max(3, Math.floor(Math.min(across, down)));
  return { width: cell, height: Math.round(cell * 1.5) };
}

// The two by three parts of a block as bits from the upper left; null: it is not a block.
export function bitsOf(char) {
  const code = char.codePointAt(0);
  if (code === HALF) return 0b010101;
  if (code < BLOCKS || code > 0x1fb1d) return null;
  const at = code - BLOCKS;
  return at < 20 ? at + 1 : at + 2;
}

export class Painter {
  #context;
  #cell = { width: 0, height: 0 };
  #stretch = 1;

  constructor(canvas) {
    this.canvas = canvas;
    this.#context = canvas.getContext("2d", { alpha: false });
  }

  // Makes the canvas as large as the picture; whether that changed it, so that all has to be painted.
  fit(picture, cell) {
    const width = picture.width * cell.width, height = picture.height * cell.height;
    if (this.canvas.width === width && this.canvas.height === height && this.#cell.width === cell.width) return false;
    Object.assign(this.canvas, { width, height });
    this.#cell = cell;
    const context = this.#context;
    context.font = `${Math.round(cell.height * 0.84)}px ${FONT}`;
    context.textBaseline = "alphabetic";
    // As wide as the game's letters, which leave a point of six free.
    this.#stretch = (cell.width * 0.92) / Math.max(1, context.measureText("M").width);
    return true;
  }

  // Paints the rows whose numbers, from 1, are among `which`; null: all of them.
  paint(picture, which, cursorOn) {
    picture.rows.forEach((row, at) => {
      if (row && (!which || which.has(at + 1))) this.#row(picture, row, at);
    });
    if (cursorOn) this.#cursor(picture);
  }

  #row(picture, row, at) {
    const { width, height } = this.#cell, top = at * height, context = this.#context;
    for (let from = 0; from < picture.width;) {
      let to = from + 1;
      while (to < picture.width && row.bg[to] === row.bg[from]) to += 1;
      context.fillStyle = colour(picture, row.bg[from]);
      context.fillRect(from * width, top, (to - from) * width, height);
      from = to;
    }
    row.text.forEach((char, column) => {
      if (char === " ") return;
      context.fillStyle = colour(picture, row.fg[column]);
      this.#sign(char, column * width, top);
    });
  }

  #sign(char, left, top) {
    const bits = bitsOf(char);
    if (bits !== null) this.#block(bits, left, top);
    else if (char.codePointAt(0) === SHADE) this.#shade(left, top);
    else if (char <= "~") this.#plain(char, left, top);
    else this.#letter(char, left, top);
  }

  // In a font with one width nothing has to be measured or cut: a large monitor has thousands of characters.
  #plain(char, left, top) {
    const { width, height } = this.#cell, context = this.#context;
    context.setTransform(this.#stretch, 0, 0, 1, left + width * 0.04, top + Math.round(height * 0.76));
    context.fillText(char, 0, 0);
    context.setTransform(1, 0, 0, 1, 0, 0);
  }

  #block(bits, left, top) {
    const { width, height } = this.#cell;
    const across = [0, Math.round(width / 2), width];
    const down = [0, Math.round(height / 3), Math.round((height * 2) / 3), height];
    for (let part = 0; part < 6; part += 1) {
      if (!(bits & (1 << part))) continue;
      const x = part % 2, y = Math.floor(part / 2);
      this.#context.fillRect(left + across[x], top + down[y], across[x + 1] - across[x], down[y + 1] - down[y]);
    }
  }

  // Every other of the 6 by 9 points that the game has in a cell.
  #shade(left, top) {
    const { width, height } = this.#cell;
    for (let y = 0; y < 9; y += 1) {
      for (let x = y % 2; x < 6; x += 2) {
        const from = [Math.round((x * width) / 6), Math.round((y * height) / 9)];
        const to = [Math.round(((x + 1) * width) / 6), Math.round(((y + 1) * height) / 9)];
        this.#context.fillRect(left + from[0], top + from[1], to[0] - from[0], to[1] - from[1]);
      }
    }
  }

  #letter(char, left, top) {
    const { width, height } = this.#cell, context = this.#context;
    context.save();
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    const sign = char > "\u2000" ? char + AS_TEXT : char;
    // Signs come from fonts of their own, which are wider than a cell.
    const stretch = char > "\u2000"
      ? Math.min(this.#stretch, width / Math.max(1, context.measureText(sign).width))
      : this.#stretch;
    const wide = context.measureText(sign).width * stretch;
    context.translate(left + (width - wide) / 2, top + Math.round(height * 0.76));
    context.scale(stretch, 1);
    context.fillText(sign, 0, 0);
    context.restore();
  }

  #cursor(picture) {
    const { x, y } = picture;
    if (!picture.blink || x < 1 || y < 1 || x > picture.width || y > picture.height) return;
    const { width, height } = this.#cell;
    const behind = picture.rows[y - 1]?.bg[x - 1];
    this.#context.fillStyle = colour(picture, behind === "0" ? "f" : "0");
    const thick = Math.max(1, Math.round(height / 9));
    this.#context.fillRect((x - 1) * width, y * height - thick * 2, width, thick);
  }
}

const colour = (picture, digit) => picture.palette[Number.parseInt(digit, 16)] ?? "#000000";
