/**
 * Makes the operations of /docs callable: each form becomes a request to the same address, and its answer is
 * shown below. The credential stays in this tab (sessionStorage), and is used only in the header of these
 * requests. Browser.
 */

const KEY = 'understudy-docs-key';
/** Maximum number of characters of an answer that are shown, because a stream may be endless. */
const SHOWN_CHARACTERS = 100_000;

interface BuiltRequest {
  url: string;
  options: RequestInit & { method: string; headers: Record<string, string> };
}

/**
 * Makes the request of a form.
 * @param values contents of the form's fields, by name: `path:<name>`, `query:<name>`, `body`. Empty query
 *   fields are left out
 * @returns arguments for `fetch`
 */
export function buildRequest(
  method: string,
  template: string,
  values: Readonly<Record<string, string>>,
  key: string,
): BuiltRequest {
  const path = template.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(values[`path:${name}`] ?? ''),
  );
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (name.startsWith('query:') && value !== '') query.set(name.slice('query:'.length), value);
  }
  const body = values.body ?? '';
  return {
    url: query.size === 0 ? path : `${path}?${query}`,
    options: {
      method,
      headers: {
        ...(key === '' ? {} : { authorization: `Bearer ${key}` }),
        ...(body === '' ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === '' ? {} : { body }),
      cache: 'no-store',
      credentials: 'omit',
    },
  };
}

/** Lays out JSON with line breaks and indentation. Other text is unchanged. */
export function layOut(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function valuesOf(form: HTMLFormElement): Record<string, string> {
  return Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value)]));
}

async function send(form: HTMLFormElement, key: string, signal: AbortSignal): Promise<void> {
  const shown = form.querySelector('output')!;
  const show = (text: string) => {
    shown.textContent = text;
  };
  show('…');
  const { url, options } = buildRequest(form.dataset.method!, form.dataset.path!, valuesOf(form), key);
  const begun = performance.now();
  const response = await fetch(url, { ...options, signal });
  const head = [
    `${response.status} ${response.statusText}`,
    `in ${Math.round(performance.now() - begun)} ms`,
  ];
  const headers = [...response.headers].map(([name, value]) => `${name}: ${value}`).join('\n');
  const above = `${options.method} ${url}\n${head.join(', ')}\n${headers}\n\n`;
  let text = '';
  show(above);
  const reader = response.body
    ?.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)
    .getReader();
  for (let part = await reader?.read(); part?.done === false; part = await reader!.read()) {
    text += part.value;
    show(above + text.slice(0, SHOWN_CHARACTERS));
    if (text.length > SHOWN_CHARACTERS) break;
  }
  await reader?.cancel();
  const isCut = text.length > SHOWN_CHARACTERS;
  show(above + (isCut ? `${text.slice(0, SHOWN_CHARACTERS)}\n… cut here` : layOut(text)));
}

function arm(form: HTMLFormElement, keyField: HTMLInputElement): void {
  const button = form.querySelector('button')!;
  let under_way: AbortController | null = null;
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    if (under_way !== null) return under_way.abort();
    under_way = new AbortController();
    button.textContent = 'Stop';
    send(form, keyField.value.trim(), under_way.signal)
      .catch((thrown: Error) => {
        const shown = form.querySelector('output')!;
        shown.textContent += thrown.name === 'AbortError' ? '\n… stopped' : `\n${thrown.message}`;
      })
      .finally(() => {
        under_way = null;
        button.textContent = 'Send';
      });
  });
}

export function start(): void {
  const keyField = document.getElementById('key') as HTMLInputElement;
  keyField.value = sessionStorage.getItem(KEY) ?? '';
  keyField.addEventListener('input', () => {
    if (keyField.value === '') sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, keyField.value);
  });
  document.getElementById('key-form')!.addEventListener('submit', (event) => event.preventDefault());
  for (const place of document.querySelectorAll('[data-origin]')) place.textContent = location.origin;
  for (const part of document.querySelectorAll<HTMLElement>('[data-script]')) part.hidden = false;
  for (const form of document.querySelectorAll<HTMLFormElement>('form[data-path]')) arm(form, keyField);
}

if (globalThis.document !== undefined) start();
