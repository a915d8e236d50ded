/**
 * Draws how throughput grows with threads, as SVG text: one line for each series, relative to the line's first point.
 * Any process.
 */

/** Points of one line: the number of threads, and the figure divided by the one with a single thread. */
export interface Curve {
  name: string;
  points: readonly (readonly [threads: number, times: number])[];
}

const WIDTH = 640;
const HEIGHT = 360;
const LEFT = 48;
const RIGHT = 150;
const TOP = 36;
const BOTTOM = 44;
const COLOURS = ['#2563eb', '#16a34a', '#d97706', '#dc2626', '#7c3aed', '#0891b2'];

/** @param title stands above the drawing */
export function drawCurves(title: string, curves: readonly Curve[]): string {
  const threads = [...new Set(curves.flatMap(({ points }) => points.map(([count]) => count)))].sort(
    (a, b) => a - b,
  );
  const most = Math.max(...threads, ...curves.flatMap(({ points }) => points.map(([, times]) => times)));
  const first = threads[0] ?? 1;
  const span = Math.max(1, (threads.at(-1) ?? 1) - first);
  const x = (count: number) => LEFT + ((count - first) / span) * (WIDTH - LEFT - RIGHT);
  const y = (times: number) => HEIGHT - BOTTOM - (times / most) * (HEIGHT - TOP - BOTTOM);
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12">`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="white"/>`,
    `<text x="${LEFT}" y="20" font-size="14">${escapeText(title)}</text>`,
  ];
  for (let times = 0; times <= most; times += most > 8 ? 4 : most > 3 ? 1 : 0.5) {
    parts.push(
      `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${round(y(times))}" y2="${round(y(times))}" stroke="#e5e7eb"/>`,
      `<text x="${LEFT - 8}" y="${round(y(times) + 4)}" text-anchor="end">${times}</text>`,
    );
  }
  for (const count of threads)
    parts.push(
      `<text x="${round(x(count))}" y="${HEIGHT - BOTTOM + 18}" text-anchor="middle">${count}</text>`,
    );
  parts.push(
    `<text x="${LEFT}" y="${HEIGHT - 8}">threads, each with a core; times the figure with one</text>`,
  );
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
