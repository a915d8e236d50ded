/** The effects that a handler records, before the host carries them out. */
import { describe, expect, it } from 'vitest';
import { ActorKit } from '../../src/runtime/kit.ts';
import type { Behaviour, Context, RowWrite } from '../../src/runtime/protocol.ts';

const row = (key: string): RowWrite => ({ op: 'put', table: 't', row: [key], value: key });

/** An actor that counts, and writes what each test requires. */
function makeCounter(
  add: (context: Context<number, number, object, null>) => void,
): Behaviour<{ add: { request: null; reply: null } }, number, number> {
  return {
    kind: 'counter',
    initial: () => 0,
    handlers: { add: (_state, _message, context) => add(context) },
    internal: {},
    persistence: {
      apply: (state, event) => state + event,
      project: (state) => (state === 1 ? [row('projected')] : []),
      snapshot: { version: 1, every_events: 64, encode: (state) => state, decode: (data) => data as number },
    },
  };
}

describe('rows', () => {
  it('are stored with the event before them, in addition to the rows that the event itself causes', () => {
    const kit = new ActorKit(
      makeCounter((context) => {
        expect(context.persist(1)).toBe(1);
        context.write([row('a')]);
        context.write([row('b')]);
        expect(context.persist(2)).toBe(3);
        context.write([row('c')]);
        context.persist(4);
      }),
    );
    kit.tell('add', null);
    const rows = kit.takeEffectsOf('persist').map((effect) => effect.rows.map(({ row }) => row[0]));
    expect(rows).toEqual([['projected', 'a', 'b'], ['c'], []]);
    expect(kit.state).toBe(7);
  });

  it('without an event are refused', () => {
    const kit = new ActorKit(makeCounter((context) => context.write([row('a')])));
    expect(() => kit.tell('add', null)).toThrow('rows are written with an event');
    expect(kit.takeEffects()).toEqual([]);
  });
});
