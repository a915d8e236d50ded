/**
 * Placeholders for content that is loading, missing, or out of date. They disappear when the content is
 * available. Browser.
 */
import type { ComponentChildren, JSX } from 'preact';
import type { ApiError } from '../core/api.ts';
import type { Resource } from '../core/resource.ts';

/**
 * Shows a resource. Until it is read, shows a placeholder or the error. If it cannot be read again, the old content
 * stays, with a note.
 */
export function Loaded<T>({
  from,
  lines = 4,
  heading,
  children,
}: {
  from: Pick<Resource<T>, 'data' | 'error' | 'refresh'>;
  /** Height of the placeholder in lines, about that of the content. */
  lines?: number;
  /** The title of the page until the content, which has its own title, is read. Absent: none. */
  heading?: string;
  children: (data: T) => JSX.Element | null;
}) {
  const data = from.data.value;
  const error = from.error.value;
  if (data === null) {
    return (
      <>
        {heading === undefined ? null : <h1>{heading}</h1>}
        {error === null ? <Skeleton lines={lines} /> : <Failed error={error} again={() => from.refresh()} />}
      </>
    );
  }
  return (
    <>
      {error === null ? null : (
        <p class="stale" role="status">
          {staleWords(error)}
        </p>
      )}
      {children(data)}
    </>
  );
}

function staleWords(error: ApiError): string {
  if (error.status === 0)
    return 'The server does not answer. This is the last known state; the page tries again.';
  if (error.status === 429) return 'Too many requests: the page tries again in a moment.';
  return `${error.message}. This is the last known state.`;
}

/** Shown while content is being read. */
export function Skeleton({ lines }: { lines: number }) {
  return (
    <div class="skeleton" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, at) => (
        <span key={at} class={`w${at % 3}`} />
      ))}
    </div>
  );
}

/** Shown for content that could not be read, with what happens next. */
export function Failed({ error, again }: { error: ApiError; again: () => void }) {
  return (
    <div class="failed-box" role="alert">
      <b>{error.status === 404 ? 'Not found' : error.status === 403 ? 'Not for your role' : error.message}</b>
      <p>{describePassing(error)}</p>
      {error.passes ? (
        <button type="button" class="plain small" onClick={again}>
          Try now
        </button>
      ) : null}
    </div>
  );
}

function describePassing(error: ApiError): string {
  if (error.status === 0)
    return 'The page tries again automatically, and continues as soon as the server answers.';
  if (error.status === 429) return 'Too many requests at once. The page tries again in a moment.';
  if (error.passes) return 'The page tries again automatically.';
  if (error.status === 404) return 'The requested object does not exist, or you may not see it.';
  return error.status === 403 ? error.message : '';
}

/** Shown for an empty list: why it is empty, and what would change that. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <b>{title}</b>
      {children === undefined ? null : <div>{children}</div>}
    </div>
  );
}
