/** A text of any length: its beginning, and the rest on demand. Always text, never markup. Browser. */
import { useState } from 'preact/hooks';
import { countOf } from '../core/format.ts';

const SHOWN_LINES = 16;
const SHOWN_CHARACTERS = 1_600;
/** Beyond it the browser would stop answering; the raw body has the whole. */
const MOST_CHARACTERS = 400_000;

export function LongText({
  text,
  kind = 'prose',
  lines = SHOWN_LINES,
}: {
  text: string;
  /** `code`: in one width, as it is laid out. */
  kind?: 'prose' | 'code';
  lines?: number;
}) {
  const [isWhole, setWhole] = useState(false);
  const cut = cutLines(text, lines);
  const shown = isWhole ? text.slice(0, MOST_CHARACTERS) : cut;
  return (
    <>
      <div class={`text ${kind}`} dir="auto">
        {shown}
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
