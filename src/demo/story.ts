/**
 * The model's answers in the demo: an agent finds a failing test, tries a change that does not apply, corrects itself,
 * and reports what it did. The provider is overloaded once, which is the only state. Otherwise pure.
 */
import type { Script, ScriptedAnswer } from './script.ts';

/** The first message of the conversation. */
export const TASK = 'The tests of this project fail. Find out why and mend it.';

/** The answers by turn. The conversation grows by two messages per turn, so its length gives the turn. */
const ANSWERS: ScriptedAnswer[] = [
  { text: 'I run the tests first, to see what fails.', tool_calls: [{ name: 'run_tests', input: {} }] },
  {
    thinking: 'The total of two kinds of things is too low, as if the first one were left out.',
    text: 'One kind of thing seems to be left out. I read the code.',
    tool_calls: [{ name: 'read_file', input: { path: 'cart.mjs' } }],
  },
  {
    text: 'The loop begins at 1 and misses the first item.',
    tool_calls: [{ name: 'edit_file', input: { path: 'cart.mjs', old: 'let i=1', new: 'let i = 0' } }],
  },
  {
    text: 'The code is written with blanks; the old text must match exactly.',
    tool_calls: [{ name: 'edit_file', input: { path: 'cart.mjs', old: 'let i = 1', new: 'let i = 0' } }],
  },
  { text: 'Changed. I run the tests again.', tool_calls: [{ name: 'run_tests', input: {} }] },
  {
    text: 'All checks pass now. The loop in cart.mjs began at 1 and so left out the first item of every cart; it begins at 0 now.',
  },
];

/** Turns of the story. */
export const STORY_TURNS = ANSWERS.length;

/** The turn (from 1) whose first attempt finds the provider overloaded. */
export const OVERLOADED_TURN = 4;

/** Makes the script of one demo. */
export function createStory(): Script {
  let wasOverloaded = false;
  return (request) => {
    const turn = (request.messages + 1) / 2;
    if (turn === OVERLOADED_TURN && !wasOverloaded) {
      wasOverloaded = true;
      return { error: { status: 529, message: 'Overloaded', retry_after_s: 0 } };
    }
    const answer = ANSWERS[turn - 1];
    if (answer === undefined) return { error: { status: 400, message: `the story has no turn ${turn}` } };
    return answer;
  };
}
