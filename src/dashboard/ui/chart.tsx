/** Charts: bars by day in SVG, lines over time by uPlot. Each also has a description in words. Browser. */
import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { countOf, formatDay, formatNumber } from '../core/format.ts';

interface DayValue {
  date: string;
  /** null: not known. */
  value: number | null;
}

/** One bar per day, with its value as the tooltip. */
export function DayBars({
  title,
  points,
  format = formatNumber,
}: {
  title: string;
  points: readonly DayValue[];
  format?: (value: number) => string;
}) {
  const known = points.flatMap(({ value }) => (value === null ? [] : [value]));
  const total = known.reduce((sum, value) => sum + value, 0);
  const most = Math.max(0, ...known);
  const words = describeDays(total, most, { known: known.length, all: points.length }, format);
  return (
    <figure class="panel chart-figure">
      <figcaption>
        <b>{title}</b>
        <span>{words}</span>
      </figcaption>
      <svg
        class="day-bars"
        viewBox={`0 0 ${points.length * 10} 100`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${title}: ${words}`}
      >
        {points.map(({ date, value }, at) => {
          const height = value === null || value === 0 ? 1 : Math.max(3, (value / most) * 100);
          return (
            <g key={date} class={value === null || value === 0 ? 'none' : 'some'}>
              <title>{`${formatDay(date)}: ${value === null ? 'not known' : format(value)}`}</title>
              <rect class="reach" x={at * 10} y={0} width={10} height={100} />
              <rect class="bar" x={at * 10 + 1} y={100 - height} width={8} height={height} />
            </g>
          );
        })}
      </svg>
      <div class="axis" aria-hidden="true">
        <span>{points[0] === undefined ? '' : formatDay(points[0].date)}</span>
        <span>{points.at(-1) === undefined ? '' : formatDay(points.at(-1)!.date)}</span>
      </div>
    </figure>
  );
}

function describeDays(
  total: number,
  most: number,
  days: { known: number; all: number },
  format: (value: number) => string,
): string {
  if (days.known === 0 && days.all > 0) return `not known for ${countOf(days.all, 'day')}`;
  const unknown = days.all - days.known;
  const without = unknown === 0 ? '' : `; not known for ${countOf(unknown, 'day')}`;
  const span = countOf(days.all, 'day');
  if (total === 0) return `none in ${span}${without}`;
  return `${format(total)} in ${span}, up to ${format(most)} a day${without}`;
}

const darkness = matchMedia('(prefers-color-scheme: dark)');
/** Whether the colour scheme is dark. Line charts are painted with fixed colours, so a change paints them again. */
const isDark = signal(darkness.matches);
darkness.addEventListener('change', () => {
  isDark.value = darkness.matches;
});

/** Resolves a property of the style sheet to a colour, because the property has one value for each scheme. */
function resolveColor(place: HTMLElement, name: string): string {
  const probe = document.createElement('i');
  probe.style.color = `var(${name})`;
  place.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/** Increments for an axis with whole numbers. */
const WHOLE_STEPS = [1, 10, 100, 1_000, 10_000].flatMap((power) => [power, 2 * power, 5 * power]);

interface Line {
  label: string;
  /** A custom property of the style sheet: `--line-1`. */
  color: string;
  values: readonly (number | null)[];
}

interface PlotOptions {
  x: readonly number[];
  lines: readonly Line[];
  height_px: number;
  is_time: boolean;
  /** Range of the values; undefined: from the data. */
  range: readonly [number, number] | undefined;
  format: (value: number) => string;
}

function plotLines(place: HTMLElement, { x, lines, height_px, is_time, range, format }: PlotOptions): uPlot {
  const colorOf = (name: string) => resolveColor(place, name);
  const axis = {
    stroke: getComputedStyle(place).color,
    grid: { stroke: colorOf('--chart-grid'), width: 1 },
    ticks: { show: false },
    font: '11px system-ui, sans-serif',
  };
  return new uPlot(
    {
      width: Math.max(200, place.clientWidth),
      height: height_px,
      scales: {
        x: { time: is_time },
        y: range === undefined ? {} : { range: () => [range[0], range[1]] },
      },
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false } },
      axes: [
        // The marks of an axis without times are at whole numbers.
        { ...axis, size: is_time ? 38 : 26, ...(is_time ? {} : { incrs: WHOLE_STEPS }) },
        { ...axis, size: 48, values: (_: uPlot, ticks: number[]) => ticks.map(format) },
      ],
      series: [
        {},
        ...lines.map((line) => ({
          label: line.label,
          stroke: colorOf(line.color),
          width: 1.5,
          spanGaps: true,
          points: { show: line.values.filter((value) => value !== null).length < 40, size: 4 },
        })),
      ],
    },
    [x as number[], ...lines.map(({ values }) => values as (number | null)[])],
    place,
  );
}

/** Lines over one axis. `x` is ascending. @param is_time `x` is in seconds since the epoch */
export function LineChart({
  x,
  lines,
  label,
  height_px = 180,
  is_time = false,
  range,
  format = String,
  onPick,
}: Partial<Pick<PlotOptions, 'height_px' | 'is_time' | 'range' | 'format'>> & {
  x: readonly number[];
  lines: readonly Line[];
  label: string;
  /** Called after a click, with the index in `x` of the nearest point. */
  onPick?: (at: number) => void;
}) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const names = lines.map((line) => line.label).join();
  // The plot outlives a render, and a click must reach the newest function.
  const newestPick = useRef(onPick);
  newestPick.current = onPick;
  useEffect(() => {
    const place = box.current!;
    const made = plotLines(place, { x, lines, height_px, is_time, range, format });
    plot.current = made;
    const watcher = new ResizeObserver(() =>
      made.setSize({ width: Math.max(200, place.clientWidth), height: height_px }),
    );
    watcher.observe(place);
    const pick = () => {
      if (made.cursor.idx != null) newestPick.current?.(made.cursor.idx);
    };
    if (onPick !== undefined) made.over.addEventListener('click', pick);
    return () => {
      watcher.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [names, height_px, range?.[0], range?.[1], is_time, isDark.value]);
  useEffect(() => {
    plot.current?.setData([x as number[], ...lines.map(({ values }) => values as (number | null)[])]);
  }, [x, lines]);
  return (
    <figure class="line-chart">
      <div ref={box} role="img" aria-label={label} />
      <figcaption class="legend">
        {lines.map((line) => (
          <span key={line.label}>
            <i style={{ background: `var(${line.color})` }} />
            {line.label}
          </span>
        ))}
      </figcaption>
    </figure>
  );
}
