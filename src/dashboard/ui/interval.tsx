/** Estimates with their intervals on one scale, in SVG, each also in words. Browser. */

interface Estimate {
  label: string;
  /** null: there is no data for an estimate. */
  value: number | null;
  interval: readonly [number, number] | null;
  /** Another, usually wider interval, which is drawn thinner. */
  wider?: readonly [number, number] | null;
  /** A custom property of the style sheet. */
  color: string;
}

const WIDTH = 1_000;

/** Draws estimates with their intervals on one scale. @param scale values at the left and the right end */
export function Intervals({
  estimates,
  scale,
  format,
  zero,
}: {
  estimates: readonly Estimate[];
  scale: readonly [number, number];
  format: (value: number) => string;
  /** Value at which a reference line is drawn; absent: no line. */
  zero?: number;
}) {
  const [from, to] = scale;
  const place = (value: number) => ((Math.min(to, Math.max(from, value)) - from) / (to - from)) * WIDTH;
  return (
    <div class="intervals">
      {estimates.map(({ label, value, interval, wider = null, color }) => (
        <div key={label} class="interval">
          <span class="interval-label">{label}</span>
          <svg
            viewBox={`0 0 ${WIDTH} 24`}
            preserveAspectRatio="none"
            role="img"
            aria-label={`${label}: ${sayEstimate({ value, interval }, format)}`}
            style={{ color: `var(${color})` }}
          >
            <line class="ground" x1={0} x2={WIDTH} y1={12} y2={12} />
            {zero === undefined ? null : (
              <line class="zero" x1={place(zero)} x2={place(zero)} y1={0} y2={24} />
            )}
            {wider === null ? null : (
              <rect
                class="wider"
                x={place(wider[0])}
                width={Math.max(2, place(wider[1]) - place(wider[0]))}
                y={10.5}
                height={3}
              />
            )}
            {interval === null ? null : (
              <rect
                class="between"
                x={place(interval[0])}
                width={Math.max(2, place(interval[1]) - place(interval[0]))}
                y={7}
                height={10}
              />
            )}
            {value === null ? null : <rect class="value" x={place(value) - 3} width={6} y={2} height={20} />}
          </svg>
          <span class="interval-words">{sayEstimate({ value, interval }, format)}</span>
        </div>
      ))}
      <div class="axis" aria-hidden="true">
        <span>{format(from)}</span>
        <span>{format(to)}</span>
      </div>
    </div>
  );
}

/** `62 %, between 48 % and 74 %`. */
function sayEstimate(
  { value, interval }: Pick<Estimate, 'value' | 'interval'>,
  format: (value: number) => string,
): string {
  if (value === null) return 'nothing yet';
  return interval === null
    ? format(value)
    : `${format(value)}, between ${format(interval[0])} and ${format(interval[1])}`;
}
