/** An exchange: facts, headers and raw bodies. It is read when the reader opens it. Browser. */
import { useState } from 'preact/hooks';
import { call, send } from '../core/api.ts';
import type { CapturedTurn } from '../core/captured.ts';
import type { Reply } from '../core/contract.ts';
import { formatBytes, formatTime } from '../core/format.ts';
import { useResource } from '../core/resource.ts';
import { CopyButton } from './basics.tsx';
import { LongText } from './long-text.tsx';
import { Loaded } from './states.tsx';

type Exchange = Reply<'GET /capture/exchanges/{id}'>;

/** Shown bytes of a body; the download has the rest. */
const SHOWN_BYTES = 300_000;

/** What the closed details show of an exchange. */
type ShownTurn = Pick<
  CapturedTurn,
  'exchange_id' | 'status' | 'provider' | 'shape' | 'seq' | 'method' | 'path'
>;

export function ExchangeDetails({ turn }: { turn: ShownTurn }) {
  const [isOpen, setOpen] = useState(false);
  const { exchange_id, status, provider, shape, seq } = turn;
  return (
    <details class="exchange" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        exchange {exchange_id}
        <span class="faint">
          {' '}
          {turn.method} {turn.path} · {status === 0 ? 'no answer' : status} ·{' '}
          {[provider, shape].filter(Boolean).join(' ')}
          {seq === null ? '' : ` · seq ${seq}`}
        </span>
      </summary>
      {isOpen ? <Inside exchange_id={exchange_id} /> : null}
    </details>
  );
}

function Inside({ exchange_id }: { exchange_id: number }) {
  const exchange = useResource(`exchange ${exchange_id}`, (signal) =>
    call('GET /capture/exchanges/{id}', { params: { id: exchange_id }, signal }),
  );
  return (
    <Loaded from={exchange}>
      {(loaded) => (
        <>
          <p class="faint">Began {formatTime(loaded.started_at)}.</p>
          <div class="sides">
            <Side exchange={loaded} side="request" />
            <Side exchange={loaded} side="response" />
          </div>
        </>
      )}
    </Loaded>
  );
}

function Side({ exchange, side }: { exchange: Exchange; side: 'request' | 'response' }) {
  const [body, setBody] = useState<string | null>(null);
  const { headers, bytes } = exchange[side];
  const path = `/capture/exchanges/${exchange.id}/${side}`;
  const show = async () => {
    setBody('…');
    setBody(await readBody(path).catch((thrown: Error) => thrown.message));
  };
  return (
    <section>
      <h4>
        {side === 'request' ? 'Request' : 'Answer'} <span class="faint">{formatBytes(bytes)}</span>
      </h4>
      <table class="headers">
        <tbody>
          {headers.map(([name, value], at) => (
            <tr key={at}>
              <th scope="row">{name}</th>
              <td>{value}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <div class="actions">
        <button type="button" class="plain small" onClick={show}>
          Show the body
        </button>
        <a class="button plain small" href={path} download>
          Download it
        </a>
        {body === null || body === '…' ? null : <CopyButton text={body} of={`the ${side}`} />}
      </div>
      {body === null ? null : <LongText text={body} kind="code" lines={40} />}
    </section>
  );
}

/**
 * Reads a body as text. JSON is laid out if it has at most SHOWN_BYTES; a longer body is cut. For an empty body, or one
 * that is not text, returns a note.
 */
async function readBody(path: string): Promise<string> {
  const bytes = new Uint8Array(await (await send(`GET ${path}`)).arrayBuffer());
  if (bytes.length === 0) return 'empty';
  try {
    const isCut = bytes.length > SHOWN_BYTES;
    // The cut may split a character. With `stream`, the decoder leaves out the incomplete character at the end.
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes.subarray(0, SHOWN_BYTES), {
      stream: isCut,
    });
    return isCut ? `${text}\n… the rest is in the download` : layOut(text);
  } catch {
    return `${formatBytes(bytes.length)} that are not text (compressed, or another format): download them`;
  }
}

function layOut(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
