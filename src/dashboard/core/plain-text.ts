/**
 * Marks that turn the order of what stands behind them, also of the page's own: a name could dress it up. Every
 * text and every attribute that a component writes goes through here. Browser.
 */
import { options, type VNode } from 'preact';

const TURNING = /[\u202a-\u202e\u2066-\u2069]/;
const EACH_TURNING = /[\u202a-\u202e\u2066-\u2069]/g;

/** Shows such marks as what they are; natural ones stay. */
function showMarks(text: string): string {
  return TURNING.test(text) ? text.replaceAll(EACH_TURNING, '\ufffd') : text;
}

function showAll(value: unknown): unknown {
  if (typeof value === 'string') return showMarks(value);
  return Array.isArray(value) ? value.map(showAll) : value;
}

/** Once, before anything is drawn. What is typed into a field stays as it was typed. */
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
