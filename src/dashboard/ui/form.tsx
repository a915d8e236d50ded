/** Forms and dialogs. Browser. */
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

export interface Field {
  name: string;
  label: string;
  type?: 'text' | 'email' | 'password' | 'textarea' | 'select';
  /** Options of a select: value and text. */
  options?: readonly (readonly [value: string, words: string])[];
  value?: string;
  required?: boolean;
  maxlength?: number;
  placeholder?: string;
  hint?: string;
  /** Text that the reader must type exactly. */
  exactly?: string;
  /** The field is shown only while the named select of the form has one of these values. */
  when?: readonly [select: string, values: readonly string[]];
}

export type FieldValues = Record<string, string>;

function FieldInput({ field, choose }: { field: Field; choose: (value: string) => void }) {
  const {
    name,
    label,
    type = 'text',
    options = [],
    value = '',
    hint,
    required,
    maxlength,
    placeholder,
    exactly,
  } = field;
  const shared = { name, required, maxlength, placeholder };
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: one of three kinds of field stands in it
    <label class="field">
      <span>{label}</span>
      {type === 'select' ? (
        <select name={name} onChange={({ currentTarget }) => choose(currentTarget.value)}>
          {options.map(([of, words]) => (
            <option key={of} value={of} selected={of === value}>
              {words}
            </option>
          ))}
        </select>
      ) : type === 'textarea' ? (
        <textarea {...shared} rows={6} defaultValue={value} />
      ) : (
        <input
          {...shared}
          type={type as 'text'}
          defaultValue={value}
          autoComplete="off"
          spellcheck={false}
          onInput={
            exactly === undefined
              ? undefined
              : ({ currentTarget }) =>
                  currentTarget.setCustomValidity(
                    currentTarget.value.trim() === exactly ? '' : `Type ${exactly}`,
                  )
          }
        />
      )}
      {hint === undefined ? null : <small>{hint}</small>}
    </label>
  );
}

/** A form; `submit` gets the values of its fields. It cannot be sent again while `submit` is running. */
export function Form({
  fields,
  button,
  submit,
  tone = 'main',
  children,
  clears = false,
}: {
  fields: readonly Field[];
  button: string;
  submit: (values: FieldValues) => Promise<unknown> | unknown;
  tone?: string;
  children?: ComponentChildren;
  /** The form is emptied if `submit` returns true. */
  clears?: boolean;
}) {
  const [isBusy, setBusy] = useState(false);
  const [chosen, setChosen] = useState<FieldValues>({});
  const chosenIn = (name: string): string => {
    const field = fields.find((known) => known.name === name);
    return chosen[name] ?? field?.value ?? field?.options?.[0]?.[0] ?? '';
  };
  const shown = fields.filter(({ when }) => when === undefined || when[1].includes(chosenIn(when[0])));
  const onSubmit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    setBusy(true);
    try {
      const values = Object.fromEntries(
        [...new FormData(form)].map(([name, value]) => [name, String(value)]),
      );
      const outcome = await submit(values);
      if (clears && outcome === true) form.reset();
    } finally {
      setBusy(false);
    }
  };
  return (
    <form class="form" onSubmit={onSubmit}>
      {shown.map((field) => (
        <FieldInput
          key={field.name}
          field={field}
          choose={(value) => setChosen((before) => ({ ...before, [field.name]: value }))}
        />
      ))}
      <div class="form-actions">
        {children}
        <button type="submit" class={tone} disabled={isBusy}>
          {button}
        </button>
      </div>
    </form>
  );
}

interface OpenDialog {
  heading: string;
  content: (close: () => void) => ComponentChildren;
  /** Whether Escape leaves the dialog open, because its content is shown only once. */
  stays: boolean;
  ended: () => void;
}

const open = signal<OpenDialog | null>(null);

/** Shows a dialog. Resolves when the dialog is closed. */
export function showDialog(
  heading: string,
  content: (close: () => void) => ComponentChildren,
  { stays = false } = {},
): Promise<void> {
  return new Promise((ended) => {
    open.value = { heading, content, stays, ended };
  });
}

/** Asks a question in a dialog. @returns the values of its fields, or null if the reader cancelled */
export async function ask({
  heading,
  text,
  fields = [],
  button = 'OK',
  is_dangerous = false,
}: {
  heading: string;
  text?: ComponentChildren;
  fields?: readonly Field[];
  button?: string;
  is_dangerous?: boolean;
}): Promise<FieldValues | null> {
  let answer: FieldValues | null = null;
  await showDialog(heading, (close) => (
    <>
      {text === undefined ? null : <p>{text}</p>}
      <Form
        fields={fields}
        button={button}
        tone={is_dangerous ? 'main danger' : 'main'}
        submit={(values) => {
          answer = values;
          close();
        }}
      >
        <button type="button" class="plain" onClick={close}>
          Cancel
        </button>
      </Form>
    </>
  ));
  return answer;
}

/** The element that shows dialogs; one per page. */
export function DialogPlace() {
  const shown = open.value;
  return shown === null ? null : <DialogBox key={shown.heading} shown={shown} />;
}

function DialogBox({ shown }: { shown: OpenDialog }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  const close = () => dialog.current?.close();
  const onClose = () => {
    open.value = null;
    shown.ended();
  };
  return (
    <dialog
      ref={dialog}
      aria-label={shown.heading}
      onClose={onClose}
      onCancel={(event: Event) => shown.stays && event.preventDefault()}
    >
      <h2>{shown.heading}</h2>
      {shown.content(close)}
    </dialog>
  );
}
