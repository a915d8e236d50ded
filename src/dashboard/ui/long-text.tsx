/** A text of any length: its beginning, and the rest on demand. Always text, never markup of the text's. Browser. */
import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { countOf } from '../core/format.ts';

const SHOWN_LINES = 16;
const SHOWN_CHARACTERS = 1_600;
/** Beyond it the browser would stop answering; the raw body has the whole. */
const MOST_CHARACTERS = 400_000;

export function LongText({
  text,
  kind = 'prose',
  lines = SHOWN_LINES,
  draw,
}: {
  text: string;
  /** `code`: in one width, as it is laid out. */
  kind?: 'prose' | 'code';
  lines?: number;
  /** Lays out what is shown; left out: as it is. */
  draw?: (text: string) => ComponentChildren;
}) {
  const [isWhole, setWhole] = useState(false);
  const cut = cutLines(text, lines);
  const shown = isWhole ? text.slice(0, MOST_CHARACTERS) : cut;
  const drawn = useMemo(() => draw?.(shown) ?? shown, [draw, shown]);
  return (
    <>
      <div class={`text ${draw === undefined ? kind : 'rendered'}`} dir="auto">
        {drawn}
        {shown.length < text.length && !isWhole ? '…' : ''}
      </div>
      {cut.length < text.length ? (
        <button type="button" class="quiet small" aria-expanded={isWhole} onClick={() => setWhole(!isWhole)}>
          {isWhole ? 'Show less' : `Show all (${countOf(text.split('\n').length, 'line')})`}
        </button>
      ) : null}
    </>
  );
}

/** The first lines; a text that is only a little longer stays whole. */
function cutLines(text: string, most: number): string {
  let at = -1;
  for (let line = 0; line < most; line++) {
    at = text.indexOf('\n', at + 1);
    if (at === -1) return text.length <= SHOWN_CHARACTERS * 1.25 ? text : text.slice(0, SHOWN_CHARACTERS);
  }
  const end = Math.min(at, SHOWN_CHARACTERS);
  return text.length - end < 200 ? text : text.slice(0, end);
}
