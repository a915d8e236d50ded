/**
 * The pattern index: passes requests to the store on its thread, and reports new patterns to live hubs. The
 * `pattern_store` adapter does the work. Actor thread.
 */
import type { PatternScope } from '../../src/domain/pattern.ts';
import type { Behaviour, Outcome, ReplyToken } from '../../src/runtime/protocol.ts';
import { liveEventTell } from '../live-hub/client.ts';
import { type MergedPattern, PATTERN_INDEX_KIND, type PatternIndexProtocol } from './protocol.ts';

/** Name of the adapter that the thread provides; see `adapter.ts`. */
export const PATTERN_STORE_ADAPTER = 'pattern_store';

/** What to report to live hubs about added patterns. */
interface Told {
  scope: PatternScope;
  /** By index in the request; null if nothing is to be reported, because the pattern maker reports it. */
  failure_types: readonly (string | null)[];
}

interface IndexInternal {
  done: Outcome<unknown, ReplyToken>;
  added: Outcome<MergedPattern[], { token: ReplyToken; told: Told }>;
  opened: Outcome<null>;
}

type Index = Behaviour<PatternIndexProtocol, null, never, IndexInternal>;

export const patternIndex: Index = {
  kind: PATTERN_INDEX_KIND,
  initial: () => null,

  handlers: {
    open(_state, _message, context) {
      context.io(PATTERN_STORE_ADAPTER, 'open', null, 'opened');
      context.reply(null);
    },
    retrieve(_state, request, context) {
      context.io(PATTERN_STORE_ADAPTER, 'retrieve', request, 'done', context.holdReply());
    },
    add(_state, { scope, patterns }, context) {
      const failure_types = patterns.map(({ source_trace_id, failure_type }) =>
        source_trace_id === null ? failure_type : null,
      );
      const carry = { token: context.holdReply(), told: { scope, failure_types } };
      context.io(PATTERN_STORE_ADAPTER, 'add', { scope, patterns }, 'added', carry);
    },
    remove(_state, request, context) {
      context.io(PATTERN_STORE_ADAPTER, 'remove', request, 'done', context.holdReply());
    },
  },

  internal: {
    // A failure needs no action. The next message opens the store again; if that fails, its sender gets the error.
    opened() {},
    done(_state, outcome, context) {
      if (outcome.ok) context.replyTo(outcome.carry, outcome.value);
      else context.refuseTo(outcome.carry, outcome.error);
    },
    added(_state, outcome, context) {
      const { token, told } = outcome.carry;
      if (!outcome.ok) return context.refuseTo(token, outcome.error);
      context.replyTo(token, outcome.value);
      for (const [place, { created }] of outcome.value.entries()) {
        if (created)
          context.count('patterns_created', told.failure_types[place] == null ? 'trace' : 'import');
      }
      const { tier, org_id, project_id } = told.scope;
      // Universal patterns do not appear in any organization's stream.
      if (tier === 'e3') return;
      const at = new Date(context.now_ms).toISOString();
      for (const [place, { pattern_id, created }] of outcome.value.entries()) {
        const failure_type = told.failure_types[place] ?? null;
        if (!created || failure_type === null) continue;
        const { to, name, payload } = liveEventTell({
          event: 'pattern_created',
          org_id,
          project_id: project_id === '' ? null : project_id,
          run_id: null,
          at,
          pattern_id,
          tier,
          trace_id: null,
          failure_type,
        });
        context.tell(to, name, payload);
      }
    },
  },
};
