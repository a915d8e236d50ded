/** The vectors of the last texts are cached, within a bound, and failures are not. */
import { describe, expect, it } from 'vitest';
import { RememberedEmbedder } from '../../src/domain/remembered-embedder.ts';
import { EMBEDDING_TEXT_CHARACTERS } from '../../src/limits.ts';
import { HashedWords } from '../fixtures/hashed-words.ts';

describe('an embedder with a cache', () => {
  it('embeds a text once, also if it is requested again during that', async () => {
    const words = new HashedWords();
    const remembered = new RememberedEmbedder(words, 10);
    const [first, second] = await Promise.all([remembered.embedOne('a b'), remembered.embedOne('a b')]);
    expect(second).toBe(first);
    expect(await remembered.embedOne('a b')).toEqual((await new HashedWords().embed(['a b']))[0]);
    expect(words.embedded).toBe(1);
    await remembered.embedOne('a c');
    expect(words.embedded).toBe(2);
  });

  it('forgets the text that was unused for longest', async () => {
    const words = new HashedWords();
    const remembered = new RememberedEmbedder(words, 2);
    for (const text of ['one', 'two', 'one', 'three', 'one']) await remembered.embedOne(text);
    expect(words.embedded).toBe(3);
    await remembered.embedOne('two');
    expect(words.embedded).toBe(4);
    for (const text of ['one', 'two'])
      expect(await remembered.embedOne(text)).toEqual((await new HashedWords().embed([text]))[0]);
    expect(words.embedded).toBe(4);
  });

  it('does not cache a failure', async () => {
    const words = new HashedWords();
    const remembered = new RememberedEmbedder(words, 2);
    words.isDown = true;
    await expect(remembered.embedOne('x')).rejects.toThrow('the embedder is down');
    words.isDown = false;
    expect(await remembered.embedOne('x')).toHaveLength(words.dimensions);
  });

  it('uses the same vector only for texts that are equal to the model', async () => {
    const words = new HashedWords();
    const remembered = new RememberedEmbedder(words, 10);
    const long = 'w'.repeat(EMBEDDING_TEXT_CHARACTERS);
    await remembered.embedOne(`${long} and more`);
    await remembered.embedOne(long);
    expect(words.embedded).toBe(1);
    // A model cannot read half a surrogate pair.
    for (const text of ['\ud800', '\ufffd', '', '\0']) await remembered.embedOne(text);
    expect(words.embedded).toBe(4);
  });
});
