/**
 * The live stream of an organization's runs: server-sent events, authenticated by the session. After a restart, or a
 * time without network, it resumes at the last event. Browser.
 */
import { type Signal, signal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import type { z } from 'zod';
import type { LIVE_EVENTS } from '../../contract/stream.ts';
import { ApiError, send } from './api.ts';
import { pause, waitAfter } from './connection.ts';
import { noteSignedOut } from './session.ts';

/**
 * For example `{ event: 'step', data: {…} }`. `reset`: events were lost, so the shown data must be read
 * again.
 */
export type LiveMessage =
  | {
      [Name in keyof typeof LIVE_EVENTS]: { event: Name; data: z.output<(typeof LIVE_EVENTS)[Name]> };
    }[keyof typeof LIVE_EVENTS]
  | { event: 'reset'; data: unknown };

/**
 * `away`: the connection was lost, and is tried again. `off`: the server refuses the stream, so it is not tried again.
 */
export type LiveState = 'connecting' | 'live' | 'away' | 'off';

/**
 * Follows the stream while the component is mounted. One call of `receive` gets the events of
 * up to 50 ms, in order, so that a thousand events cause one redraw.
 */
export function useLive(org_id: string, receive: (messages: LiveMessage[]) => void): Signal<LiveState> {
  const state = useMemo(() => signal<LiveState>('connecting'), []);
  useEffect(() => {
    const ends = new AbortController();
    const batch = new Batch(receive);
    void follow(org_id, ends.signal, state, batch).catch(() => {});
    return () => ends.abort();
  }, [org_id]);
  return state;
}

class Batch {
  #messages: LiveMessage[] = [];
  readonly #receive: (messages: LiveMessage[]) => void;

  constructor(receive: (messages: LiveMessage[]) => void) {
    this.#receive = receive;
  }

  add(message: LiveMessage): void {
    this.#messages.push(message);
    if (this.#messages.length > 1) return;
    // A timer, because a hidden page draws no frames, but must not accumulate events without bound.
    setTimeout(() => {
      const messages = this.#messages;
      this.#messages = [];
      this.#receive(messages);
    }, 50);
  }
}

async function follow(
  org_id: string,
  ends: AbortSignal,
  state: Signal<LiveState>,
  batch: Batch,
): Promise<void> {
  let last_id = '';
  for (let failures = 0; !ends.aborted; ) {
    try {
      const headers = last_id === '' ? {} : { 'last-event-id': last_id };
      const response = await send('GET /v1/monitor/stream', { query: { org_id }, signal: ends, headers });
      state.value = 'live';
      failures = 0;
      for await (const { id, event, data } of readEvents(response.body!)) {
        if (id !== '') last_id = id;
        if (event !== '') batch.add({ event, data: data === '' ? null : JSON.parse(data) } as LiveMessage);
      }
    } catch (thrown) {
      if (ends.aborted) return;
      if (thrown instanceof ApiError && thrown.status === 401) return noteSignedOut();
      if (thrown instanceof ApiError && !thrown.passes) {
        state.value = 'off';
        return;
      }
    }
    failures++;
    state.value = 'away';
    await pause(waitAfter(failures), ends);
  }
}

interface WireEvent {
  id: string;
  event: string;
  data: string;
}

/** Events of a body of media type text/event-stream. */
async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<WireEvent> {
  // Not every browser can iterate over a stream.
  const reader = body
    .pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)
    .getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split('\n\n');
    rest = blocks.pop()!;
    for (const block of blocks) yield readBlock(block);
  }
}

function readBlock(block: string): WireEvent {
  const read = { id: '', event: '', data: '' };
  for (const line of block.split('\n')) {
    const [, name, value = ''] = /^(id|event|data): ?(.*)$/.exec(line) ?? [];
    if (name !== undefined) read[name as keyof WireEvent] += value;
  }
  return read;
}
