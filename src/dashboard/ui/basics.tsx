/** Small parts of every page: headings, panels, badges, times, identifiers, numbers. Browser. */
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { formatAgo, formatTime } from '../core/format.ts';
import { copyText } from './copy.ts';

export type Tone = 'good' | 'bad' | 'warn' | 'student' | 'off' | 'plain';

/** The head of a page: title, purpose and actions. */
export function PageHead({
  title,
  sub,
  children,
}: {
  title: ComponentChildren;
  sub?: ComponentChildren;
  children?: ComponentChildren;
}) {
  return (
    <header class="page-head">
      <div>
        <h1>{title}</h1>
        {sub === undefined ? null : <p>{sub}</p>}
      </div>
      {children === undefined ? null : <div class="actions">{children}</div>}
    </header>
  );
}

/** A box with a heading. */
export function Panel({
  title,
  sub,
  actions,
  children,
  class: kind = '',
}: {
  title?: ComponentChildren;
  sub?: ComponentChildren;
  actions?: ComponentChildren;
  children?: ComponentChildren;
  class?: string;
}) {
  return (
    <section class={`panel ${kind}`}>
      {title === undefined ? null : (
        <div class="panel-head">
          <div>
            <h2>{title}</h2>
            {sub === undefined ? null : <p class="faint">{sub}</p>}
          </div>
          {actions === undefined ? null : <div class="actions">{actions}</div>}
        </div>
      )}
      {children}
    </section>
  );
}

/** A state in one word. */
export function Badge({
  tone = 'plain',
  children,
  title,
}: {
  tone?: Tone;
  children: ComponentChildren;
  title?: string;
}) {
  return (
    <span class={`badge ${tone}`} title={title}>
      {children}
    </span>
  );
}

/** A number with a label. With `href` it links to its source. */
export function Stat({
  value,
  label,
  sub,
  href,
  tone = 'plain',
}: {
  value: ComponentChildren;
  label: string;
  sub?: ComponentChildren;
  href?: string;
  tone?: Tone;
}) {
  const content = (
    <>
      <span class="stat-label">{label}</span>
      <b class={`stat-value ${tone}`}>{value}</b>
      {sub === undefined ? null : <span class="stat-sub">{sub}</span>}
    </>
  );
  return href === undefined ? (
    <div class="stat">{content}</div>
  ) : (
    <a class="stat" href={href}>
      {content}
    </a>
  );
}

/** The present time, for texts such as "2 minutes ago". */
const now = signal(Date.now());
setInterval(() => {
  now.value = Date.now();
}, 20_000);

/** How long ago, or how long until then, with the exact time as a tooltip. Shows `never` if there is no time. */
export function Time({ at, never = 'never' }: { at: string | null | undefined; never?: string }) {
  if (at === null || at === undefined) return <span class="faint">{never}</span>;
  return (
    <time dateTime={at} title={formatTime(at)}>
      {formatAgo(at, now.value)}
    </time>
  );
}

/** Copies a text, and confirms it. */
export function CopyButton({
  text,
  label = 'Copy',
  of,
}: {
  text: string | (() => string);
  label?: string;
  of?: string;
}) {
  const [said, say] = useState('');
  const copy = async () => {
    say(
      await copyText(typeof text === 'string' ? text : text()).then(
        () => 'Copied',
        () => 'Select it and copy',
      ),
    );
    setTimeout(() => say(''), 2_000);
  };
  return (
    <button
      type="button"
      class="plain small"
      onClick={copy}
      aria-label={of === undefined ? undefined : `${label} ${of}`}
    >
      <span aria-live="polite">{said === '' ? label : said}</span>
    </button>
  );
}

/**
 * An identifier. An id that the service made is shown by its prefix and its end. Any other long id is shown by its
 * beginning. With `isWhole`, all is shown. The tooltip shows the whole id, and a click copies it.
 */
export function Id({ id, isWhole = false }: { id: string; isWhole?: boolean }) {
  const [said, say] = useState('');
  const shown = isWhole ? id : shorten(id);
  const copy = async () => {
    say(
      await copyText(id).then(
        () => 'copied',
        () => id,
      ),
    );
    setTimeout(() => say(''), 1_500);
  };
  return (
    <button type="button" class="id" title={`${id} (copy)`} onClick={copy}>
      {said === '' ? shown : said}
    </button>
  );
}

function shorten(id: string): string {
  if (/^[a-z]+_[0-9A-Z]{26}$/.test(id)) return `${id.split('_')[0]}_…${id.slice(-6)}`;
  return id.length > 28 ? `${id.slice(0, 27)}…` : id;
}

/** Lines of text with a button that copies them. */
export function Snippet({ text, label = 'To copy' }: { text: string; label?: string }) {
  return (
    <div class="snippet">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable area must be reachable by keyboard */}
      {/* biome-ignore lint/a11y/useSemanticElements: only `pre` keeps the line breaks */}
      <pre tabIndex={0} role="region" aria-label={label}>
        {text}
      </pre>
      <CopyButton text={text} of={label} />
    </div>
  );
}

/** An e-mail address, which breaks at its @ if it does not fit on one line. */
export function Email({ email, title }: { email: string; title?: string }) {
  const [local, domain = ''] = email.split(/(?=@[^@]*$)/);
  return (
    <span class="email" title={title}>
      {local}
      <wbr />
      {domain}
    </span>
  );
}

/** A bar that shows how much of something is used. With `is_goal` a full bar is good. */
export function Meter({
  used,
  most,
  label,
  is_goal = false,
}: {
  used: number;
  most: number;
  label: string;
  is_goal?: boolean;
}) {
  const share = most === 0 ? 1 : Math.min(1, used / most);
  return <progress max={1} value={share} aria-label={label} class={!is_goal && share >= 0.9 ? 'near' : ''} />;
}
