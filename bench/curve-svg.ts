/**
 * Draws a line chart as SVG text. Each line shows a series of figures divided by the first figure of that series. Any
 * process.
 */

/** One line. Each point is a number on the axis, such as threads, and the figure divided by the line's first figure. */
export interface Curve {
  name: string;
  points: readonly (readonly [count: number, times: number])[];
}

const PLOT_WIDTH = 442;
const HEIGHT = 360;
const LEFT = 48;
/** Average width of a letter, and width of the figure after a name. */
const LETTER = 6.3;
const FIGURE = 60;
const TOP = 36;
const BOTTOM = 44;
const COLOURS = ['#2563eb', '#16a34a', '#d97706', '#dc2626', '#7c3aed', '#0891b2'];

interface Drawing {
  /** The heading above the drawing. */
  title: string;
  /** Caption that explains the numbers and the figures. */
  axis: string;
  /** Minimum upper end of the figures' axis. */
  reaches: number;
}

export function drawCurves(curves: readonly Curve[], { title, axis, reaches }: Drawing): string {
  const counts = [...new Set(curves.flatMap(({ points }) => points.map(([count]) => count)))].sort(
    (a, b) => a - b,
  );
  const most = Math.max(reaches, ...curves.flatMap(({ points }) => points.map(([, times]) => times)));
  const first = counts[0] ?? 1;
  const span = Math.max(1, (counts.at(-1) ?? 1) - first);
  const x = (count: number) => LEFT + ((count - first) / span) * PLOT_WIDTH;
  const y = (times: number) => HEIGHT - BOTTOM - (times / most) * (HEIGHT - TOP - BOTTOM);
  const names = Math.max(0, ...curves.map(({ name }) => name.length));
  const width = Math.ceil(Math.max(640, LEFT + PLOT_WIDTH + LETTER * names + FIGURE));
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${HEIGHT}" font-family="sans-serif" font-size="12">`,
    `<rect width="${width}" height="${HEIGHT}" fill="white"/>`,
    `<text x="${LEFT}" y="20" font-size="14">${escapeText(title)}</text>`,
  ];
  for (let times = 0; times <= most; times += most > 40 ? 20 : most > 8 ? 4 : most > 3 ? 1 : 0.5) {
    parts.push(
      `<line x1="${LEFT}" x2="${LEFT + PLOT_WIDTH}" y1="${round(y(times))}" y2="${round(y(times))}" stroke="#e5e7eb"/>`,
      `<text x="${LEFT - 8}" y="${round(y(times) + 4)}" text-anchor="end">${times}</text>`,
    );
  }
  for (const count of counts)
    parts.push(
      `<text x="${round(x(count))}" y="${HEIGHT - BOTTOM + 18}" text-anchor="middle">${count.toLocaleString('en-US')}</text>`,
    );
  parts.push(`<text x="${LEFT}" y="${HEIGHT - 8}">${escapeText(axis)}</text>`);
  // Labels that would overlap move down.
  let below = Number.NEGATIVE_INFINITY;
  const byHeight = curves
    .map((curve, at) => ({ ...curve, colour: COLOURS[at % COLOURS.length]! }))
    .sort((a, b) => (b.points.at(-1)?.[1] ?? 0) - (a.points.at(-1)?.[1] ?? 0));
  for (const { name, points, colour } of byHeight) {
    const last = points.at(-1);
    if (last === undefined) continue;
    const path = points.map(([count, times]) => `${round(x(count))},${round(y(times))}`).join(' ');
    parts.push(`<polyline points="${path}" fill="none" stroke="${colour}" stroke-width="2"/>`);
    for (const [count, times] of points)
      parts.push(`<circle cx="${round(x(count))}" cy="${round(y(times))}" r="3" fill="${colour}"/>`);
    below = Math.max(below + 15, y(last[1]) + 4);
    parts.push(
      `<text x="${round(x(last[0]) + 10)}" y="${round(below)}" fill="${colour}">${escapeText(name)} ${last[1].toFixed(2)}</text>`,
    );
  }
  return `${parts.join('\n')}\n</svg>\n`;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function escapeText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
