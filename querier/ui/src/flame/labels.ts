/* What is written into bars: as much of a name as fits. */
import { shortNames } from "./names";

const ELLIPSIS = "…";

export type Measure = (text: string) => number;

/* Widths are measured once for each name and form, since measuring costs more than drawing. */
export class Labels {
  private full: Float32Array;
  private readonly forms = new Map<number, { texts: string[]; widths: number[] }>();
  private dots = -1;

  constructor(
    private readonly names: readonly string[],
    private readonly measure: Measure,
  ) {
    this.full = new Float32Array(names.length).fill(-1);
  }

  /* The font was loaded, or changed: nothing that was measured holds. */
  clear(): void {
    this.full.fill(-1);
    this.forms.clear();
    this.dots = -1;
  }

  fullWidth(name: number): number {
    let width = this.full[name]!;
    if (width < 0) width = this.full[name] = this.measure(this.names[name]!);
    return width;
  }

  /* The longest form of a name that fits into room pixels; empty if not even two letters do. */
  fit(name: number, room: number): string {
    if (this.fullWidth(name) <= room) return this.names[name]!;
    let forms = this.forms.get(name);
    if (!forms) {
      const texts = shortNames(this.names[name]!);
      forms = { texts, widths: texts.map(this.measure) };
      this.forms.set(name, forms);
    }
    for (let i = 0; i < forms.texts.length; i++) if (forms.widths[i]! <= room) return forms.texts[i]!;
    if (this.dots < 0) this.dots = this.measure(ELLIPSIS);
    const text = forms.texts[forms.texts.length - 1]!;
    const width = forms.widths[forms.widths.length - 1]!;
    /* An estimate from the mean width of letters, and then letters off until it fits. */
    let letters = Math.min(text.length - 1, Math.ceil(((room - this.dots) / width) * text.length));
    while (letters >= 2 && this.measure(text.slice(0, letters)) + this.dots > room) letters--;
    if (letters < 2) return "";
    const last = text.charCodeAt(letters - 1);
    if (last >= 0xd800 && last < 0xdc00) letters--;
    return text.slice(0, letters) + ELLIPSIS;
  }
}
