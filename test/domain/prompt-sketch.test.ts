/** Sketches of system prompts: what they must ignore, and what they must distinguish. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ALIKE, compareSketches, SKETCH_CHARS, sketchPrompt } from '../../src/domain/prompt-sketch.ts';

const RULES =
  'You mend code in a repository that the user has open. Read a file before you change it, change as little as you ' +
  'can, and run the tests when you are done. Say what you did in one paragraph. Never push to a remote branch.';
const prompt = (...lines: string[]): string[] => [[...lines, RULES].join('\n')];
const similarity = (left: string[], other: string[]): number =>
  compareSketches(sketchPrompt(left), sketchPrompt(other));

describe('a sketch of a prompt', () => {
  it.each([
    ['a date', 'Today is Friday, 21 November 2026, 07:16 UTC.', 'Today is Saturday, December 5th, 2026.'],
    [
      'a session',
      'Session: 6f9619ff-8b86-d011-b42d-00cf4fc964ff',
      'Session: 0b1f3c2a-aaaa-4c1d-9e64-1234567890ab',
    ],
    ['a folder', 'Working directory: /tmp/run-8f3a21/work', 'Working directory: /tmp/run-77/work'],
    ['a budget', '<budget>tokens left: 183211</budget>', '<budget>tokens left: 9</budget>'],
    ['a name', 'The user is called Alice Liddell.', 'The user is called Bob.'],
    ['a listing', 'M src/parser.ts\nM src/lexer.ts\n?? notes.md', 'nothing to commit, working tree clean'],
  ])('ignores differences in %s', (_name, left, other) => {
    expect(similarity(prompt(left), prompt(other))).toBeGreaterThan(ALIKE);
  });

  it.each([
    [
      'another agent',
      prompt(),
      ['You give conversations a title of at most five words, in the language of the user.'],
    ],
    ['no prompt', prompt(), []],
    ['another script', ['你是一个修理代码的助手。先读文件。'], ['あなたは会話に題名を付けます。']],
  ])('distinguishes %s', (_name, left, other) => {
    expect(similarity(left, other)).toBeLessThan(ALIKE);
  });

  it('is nearer to another prompt of the same agent than to one of another agent with the same beginning', () => {
    const shared = RULES.repeat(2);
    const agent = (role: string, noise: string): string[] => [`${noise}\n${shared}\n${role}`];
    const writer =
      'You write the change itself, test first, and hand it to a reviewer with a short note on why.';
    const critic =
      'You look for mistakes in what others wrote, name each with its line, and never change a file.';
    expect(similarity(agent(writer, 'Monday'), agent(writer, 'It is Tuesday, 12:01'))).toBeGreaterThan(
      similarity(agent(writer, 'Monday'), agent(critic, 'Monday')),
    );
  });

  it('has a fixed length, is the same for the same prompt, and compares alike in both directions', () => {
    const blocks = fc.array(fc.string({ unit: 'binary', maxLength: 60 }), { maxLength: 5 });
    fc.assert(
      fc.property(blocks, blocks, (left, other) => {
        const sketch = sketchPrompt(left);
        expect(sketch.length).toBe(left.join('') === '' ? 0 : SKETCH_CHARS);
        expect(Buffer.from(sketch, 'latin1').toString('latin1')).toBe(sketch);
        expect(sketchPrompt([...left])).toBe(sketch);
        const alike = compareSketches(sketch, sketchPrompt(other));
        expect(alike).toBe(compareSketches(sketchPrompt(other), sketch));
        expect(alike).toBeGreaterThanOrEqual(0);
      }),
    );
  });

  it('can be made of prompts of any size', () => {
    const long = [RULES.repeat(5_000), RULES.repeat(5_000), RULES];
    expect(similarity(long, [`${long[0]}.`, long[1]!, RULES])).toBeGreaterThan(0.9);
    expect(sketchPrompt(Array.from({ length: 10_000 }, (_, i) => `rule ${i}`))).toHaveLength(SKETCH_CHARS);
  });
});
