/**
 * A text of any length: its beginning, and the rest on demand. Markup in the text is never interpreted.
 * Browser.
 */
import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { countOf } from '../core/format.ts';

const SHOWN_LINES = 16;
const SHOWN_CHARACTERS = 1_600;
/** Maximum of shown characters: with more, the browser would hang. The raw body has the whole text. */
const MOST_CHARACTERS = 400_000;

export function LongText({
  text,
  kind = 'prose',
  lines = SHOWN_LINES,
  draw,
}: {
  text: string;
  /** `code`: monospaced, with its line breaks. */
  kind?: 'prose' | 'code';
  lines?: number;
  /** Renders the shown text; absent: plain text. */
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

/** The first lines, with at most SHOWN_CHARACTERS characters. A text that is only a little longer stays whole. */
function cutLines(text: string, most: number): string {
  let at = -1;
  for (let line = 0; line < most; line++) {
    at = text.indexOf('\n', at + 1);
    if (at === -1) return text.length <= SHOWN_CHARACTERS * 1.25 ? text : text.slice(0, SHOWN_CHARACTERS);
  }
  const end = Math.min(at, SHOWN_CHARACTERS);
  return text.length - end < 200 ? text : text.slice(0, end);
}
