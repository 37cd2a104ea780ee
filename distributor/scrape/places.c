#include "distributor/scrape/places.h"

void places_init(struct places *places, unsigned max)
{
    *places = (struct places){.max = max, .doubtful_max = FG_MAX(max / 4, 1)};
}

static struct places_line *line_of(struct places *places, const struct place *place)
{
    return place->counted_doubtful ? &places->doubtful : &places->sound;
}

static void line_add(struct places_line *line, struct place *place)
{
    place->before = line->last;
    place->after = NULL;
    *(line->last == NULL ? &line->first : &line->last->after) = place;
    line->last = place;
    line->n++;
}

static void line_remove(struct places_line *line, struct place *place)
{
    *(place->before == NULL ? &line->first : &place->before->after) = place->after;
    *(place->after == NULL ? &line->last : &place->after->before) = place->before;
    line->n--;
}

static struct place *next_in_line(const struct places *places)
{
    if (places->taken == places->max)
        return NULL;
    if (places->sound.first != NULL)
        return places->sound.first;
    return places->doubtful_taken < places->doubtful_max ? places->doubtful.first : NULL;
}

static void serve(struct places *places)
{
    struct place *place;

    while ((place = next_in_line(places)) != NULL) {
        line_remove(line_of(places, place), place);
        place->waits = false;
        place->has = true;
        places->taken++;
        places->doubtful_taken += place->counted_doubtful;
        place->on_place(place);
    }
}

void places_ask(struct places *places, struct place *place)
{
    fg_assert(!place->waits && !place->has);
    place->waits = true;
    place->counted_doubtful = place->doubtful;
    line_add(line_of(places, place), place);
    serve(places);
}

void places_leave(struct places *places, struct place *place)
{
    if (place->waits)
        line_remove(line_of(places, place), place);
    if (place->has) {
        places->taken--;
        places->doubtful_taken -= place->counted_doubtful;
    }
    place->waits = place->has = false;
    serve(places);
}
