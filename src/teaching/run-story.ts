/**
 * Turns a captured run into the steps of a trace. So the code that finds patterns in submitted traces also finds them
 * in captured runs. Turns are added one by one. Only the new part of each turn is kept, bounded and without secrets.
 * Pure; command line.
 */

import type { TraceCall } from '../domain/patterns/calls.ts';
import { cleanText } from '../domain/patterns/text.ts';
import { readCallTrace, TRACE_BOUNDS, type Trace } from '../domain/trace.ts';
import type { NormalTurn, TurnBlock, TurnMessage } from '../domain/turn.ts';

/** Maximum number of turns of one run that are searched for patterns; each takes about 10 KB of memory. */
const RUN_STORY_TURNS = 2_000;

type Piece = Record<string, unknown>;

/** Collects a run's turns. After RUN_STORY_TURNS turns, later ones are left out. */
export class RunStory {
  readonly #calls: TraceCall[] = [];

  add({ request, answer }: NormalTurn): void {
    if (this.#calls.length >= RUN_STORY_TURNS) return;
    // If the conversation began before the first turn, take only its task and its end.
    const { messages } = request;
    const from = messages.findLastIndex(({ role }) => role === 'assistant') + 1;
    const added = messages.slice(from);
    const isFirst = this.#calls.length === 0;
    const told = isFirst && from > 0 ? [...messages.slice(0, 1), ...added] : added;
    this.#calls.push({
      seq: this.#calls.length,
      model: answer.model ?? request.model ?? '',
      request: { messages: told.map(tellMessage) },
      response: { role: 'assistant', content: answer.content.flatMap(tellBlock) },
      is_error: false,
    });
  }

  /** Makes the trace of the collected turns. @param outcome '' when unknown */
  finish(runId: string, outcome: string): Trace {
    const head = { trace_id: runId, run_id: runId, task: '', model: '', task_profile: '', outcome };
    return readCallTrace(head, this.#calls);
  }
}

function tellMessage({ role, content }: TurnMessage): Piece {
  return { role: role === 'tool' ? 'user' : role, content: content.flatMap(tellBlock) };
}

/** A block in the form of the Messages API, truncated to roughly what a trace keeps. */
function tellBlock(block: TurnBlock): Piece[] {
  switch (block.type) {
    case 'text':
      return [{ type: 'text', text: cut(block.text, TRACE_BOUNDS.task) }];
    case 'thinking':
      return block.text === '' ? [] : [{ type: 'thinking', thinking: cut(block.text, TRACE_BOUNDS.thought) }];
    case 'tool_call': {
      const input = typeof block.input === 'string' ? block.input : JSON.stringify(block.input ?? {});
      return [
        { type: 'tool_use', id: block.id, name: block.name, input: cut(input, TRACE_BOUNDS.action_input) },
      ];
    }
    case 'tool_result': {
      const { observation_head: head, observation_tail: tail } = TRACE_BOUNDS;
      const text = cleanText(textsOf(block.content), 2 * head, 2 * tail);
      return [
        {
          type: 'tool_result',
          tool_use_id: block.call_id ?? '',
          is_error: block.is_error,
          content: [{ type: 'text', text }],
        },
      ];
    }
    default:
      return [];
  }
}

function textsOf(blocks: readonly TurnBlock[]): string {
  return blocks.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('\n');
}

/** Masks a text and cuts it to twice the bound of a trace. The reader of the trace then cuts it to the bound itself. */
function cut(text: string, characters: number): string {
  return cleanText(text, 2 * characters);
}
