/**
 * A list of any length. Only the rows in view and a few beyond are in the page. All rows have one height. Arrow keys,
 * `j` and `k` move the focus between rows with a link. Browser.
 */
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

const SPARE_ROWS = 8;
/** The next page is requested this many rows before the end. */
const AHEAD_ROWS = 20;

export function VirtualList<One>({
  rows,
  row_px,
  keyOf,
  draw,
  label,
  has_more = false,
  onEnd,
}: {
  rows: readonly One[];
  /** Height of every row. */
  row_px: number;
  keyOf: (row: One) => string;
  draw: (row: One, at: number) => ComponentChildren;
  label: string;
  /** Whether more rows can be read. */
  has_more?: boolean;
  onEnd?: () => void;
}) {
  const box = useRef<HTMLUListElement>(null);
  const [range, setRange] = useState<[from: number, to: number]>([0, 40]);
  const look = () => {
    if (box.current === null) return;
    const { top } = box.current.getBoundingClientRect();
    const from = Math.max(0, Math.floor(-top / row_px) - SPARE_ROWS);
    const to = Math.ceil((innerHeight - top) / row_px) + SPARE_ROWS;
    setRange((before) => (before[0] === from && before[1] === to ? before : [from, Math.max(from, to)]));
  };
  useLayoutEffect(() => {
    look();
    addEventListener('scroll', look, { passive: true });
    addEventListener('resize', look);
    return () => {
      removeEventListener('scroll', look);
      removeEventListener('resize', look);
    };
  }, [row_px]);
  const [from, to] = range;
  const isNearEnd = has_more && to + AHEAD_ROWS >= rows.length;
  useEffect(() => {
    if (isNearEnd) onEnd?.();
  }, [isNearEnd, rows.length]);
  const shown = rows.slice(from, to);
  return (
    <ul
      ref={box}
      class="virtual-list"
      aria-label={label}
      onKeyDown={moveFocus}
      style={{ height: `${rows.length * row_px}px` }}
    >
      {shown.map((row, at) => (
        <li
          key={keyOf(row)}
          aria-setsize={rows.length}
          aria-posinset={from + at + 1}
          style={{ transform: `translateY(${(from + at) * row_px}px)`, height: `${row_px}px` }}
        >
          {draw(row, from + at)}
        </li>
      ))}
    </ul>
  );
}

function moveFocus(event: KeyboardEvent): void {
  const step =
    event.key === 'ArrowDown' || event.key === 'j'
      ? 1
      : event.key === 'ArrowUp' || event.key === 'k'
        ? -1
        : 0;
  if (step === 0 || event.ctrlKey || event.metaKey || event.altKey) return;
  const list = event.currentTarget as HTMLElement;
  const here = (event.target as HTMLElement).closest('li');
  const next = step === 1 ? here?.nextElementSibling : here?.previousElementSibling;
  const link = next?.querySelector<HTMLElement>('a, button');
  if (link == null || !list.contains(link)) return;
  event.preventDefault();
  link.focus({ preventScroll: true });
  link.scrollIntoView({ block: 'nearest' });
}
