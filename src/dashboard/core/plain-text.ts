/**
 * Neutralizes characters that reverse the direction of the following text. A name with such characters could make the
 * page show false text. Every text that a component writes passes through here, and so do titles, labels for screen
 * readers and placeholders. Browser.
 */
import { options, type VNode } from 'preact';

const TURNING = /[\u202a-\u202e\u2066-\u2069]/;
const EACH_TURNING = /[\u202a-\u202e\u2066-\u2069]/g;

/** Replaces characters that change the direction of text by a visible mark. */
function showMarks(text: string): string {
  return TURNING.test(text) ? text.replaceAll(EACH_TURNING, '\ufffd') : text;
}

function showAll(value: unknown): unknown {
  if (typeof value === 'string') return showMarks(value);
  return Array.isArray(value) ? value.map(showAll) : value;
}

/**
 * Makes Preact replace these characters in all text that components write. Call it once, before the first drawing. Text
 * that the reader types into a field is not changed.
 */
export function showMarksEverywhere(): void {
  const before = options.vnode;
  options.vnode = (vnode: VNode) => {
    const props = vnode.props as Record<string, unknown>;
    if (typeof vnode.type === 'string' && props !== null) {
      for (const name of ['children', 'title', 'aria-label', 'placeholder'])
        if (props[name] !== undefined) props[name] = showAll(props[name]);
    }
    before?.(vnode);
  };
}
